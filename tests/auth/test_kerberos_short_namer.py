"""From Kerberos principals to user names: `sasl.kerberos.principal.to.local.rules` as in Kafka."""

from __future__ import annotations

import pytest

from ottla.auth.kerberos_short_namer import KerberosShortNamer

REALM = "REALM.COM"


def short(principal: str, *rules: str) -> str:
    return KerberosShortNamer(rules, REALM).short_name(principal)


@pytest.mark.parametrize(
    ("principal", "rules", "name"),
    [
        ("alice@REALM.COM", (), "alice"),
        ("kafka/host.org@REALM.COM", ("DEFAULT",), "kafka"),
        ("alice@REALM.COM", ("RULE:[1:$1]",), "alice"),
        ("alice/a@REALM.COM", ("RULE:[2:$1_$2]",), "alice_a"),
        ("alice@OTHER.COM", ("RULE:[1:$1.$0]",), "alice.OTHER.COM"),
        ("App.service@REALM.COM", (r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g", "DEFAULT"), "service"),
        ("App.service@REALM.COM", (r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g/L",), "service"),
        ("abcabc@REALM.COM", ("RULE:[1:$1]s/b/x/",), "axcabc"),
        ("abcabc@REALM.COM", ("RULE:[1:$1]s/b/x/g",), "axcaxc"),
        ("abc@REALM.COM", ("RULE:[1:$1]s/b//",), "ac"),
        ("Alice@REALM.COM", ("RULE:[1:$1]/L",), "alice"),
        ("Alice@REALM.COM", ("RULE:[1:$1]/U",), "ALICE"),
        ("Alice@REALM.COM", ("RULE:[1:$1]L",), "alice"),
        ("alice@REALM.COM", ("RULE:[2:$1]", "RULE:[1:$1](bob)", " DEFAULT "), "alice"),
        ("x/y@REALM.COM", ("RULE:[1:$1]", "RULE:[2:$2](y)"), "y"),
        ("team-7@REALM.COM", ("RULE:[1:$1]s/(?<kind>[a-z]+)-([0-9])/$2-$1/",), "7-team"),
    ],
)
def test_the_first_rule_that_applies_decides(
    principal: str, rules: tuple[str, ...], name: str
) -> None:
    assert short(principal, *rules) == name


@pytest.mark.parametrize(
    ("principal", "rules"),
    [
        ("alice@OTHER.COM", ()),  # DEFAULT is for our own realm
        ("alice@realm.com", ()),
        ("alice@REALM.COM", ("RULE:[2:$1]",)),
        ("alice@REALM.COM", ("RULE:[1:$1](lic)",)),  # the whole of it must match
        ("alice@REALM.COM", ("RULE:[1:$1@$0]",)),  # the result contains an @
        ("a/b@REALM.COM", ("RULE:[2:$1/$2]",)),
        ("alice@REALM.COM", ("RULE:[1:$1]s/.*//",)),  # the result is empty
        ("a/b/c@REALM.COM", ()),
        ("alice", ()),
        ("@REALM.COM", ()),
        ("/b@REALM.COM", ()),
        ("alice@", ()),
        ("", ()),
        (r"root\@REALM.COM@OTHER.COM", ()),  # escapes of the library's
        (r"root\/x@REALM.COM", ()),
        ("alice@REALM.COM@REALM.COM", ()),
    ],
)
def test_a_principal_without_a_rule_is_refused(principal: str, rules: tuple[str, ...]) -> None:
    with pytest.raises(ValueError):
        short(principal, *rules)


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "default",
        "DEFAULT/L",
        "RULE:",
        "RULE:[1:$1",
        "RULE:[:$1]",
        "RULE:[1:$2]",
        "RULE:[1:$]",
        "RULE:[1:$1](a",
        "RULE:[1:$1]([)",
        "RULE:[1:$1]s/[/x/",
        "RULE:[1:$1]s/a",
        "RULE:[1:$1]/X",
        "RULE:[1:$1]/L and more",
    ],
)
def test_an_unreadable_rule_is_named(rule: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        KerberosShortNamer(["DEFAULT", rule], REALM)
