"""The table of functions: what each is called with, what comes out, and how Spark computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final, TypeAlias

from ottla.rows.errors import SqlError
from ottla.rows.types import SqlType
from ottla.sql.functions.aggregation import Aggregation
from ottla.sql.functions.patterns import (
    Bound,
    Pattern,
    PatternReader,
    Shape,
    concrete,
    match,
)
from ottla.sql.functions.python_form import PythonForm

NAMES_LIKE_IT_MAX: Final = 3


class FunctionKind(StrEnum):
    """As SHOW FUNCTIONS and DESCRIBE FUNCTION name them."""

    SCALAR = "SCALAR"
    AGGREGATE = "AGGREGATE"
    TABLE = "TABLE"


@dataclass(frozen=True, slots=True)
class Call:
    """One call, its arguments translated and cast to the parameters of the signature: `texts` for
    Spark, `python` for Python.

    `constants`: the Python values of those that are literals. `order` is how rows of a stream
    follow each other, for aggregates; `settings` those of the server; `depth` how many lambdas
    the call stands in.
    """

    texts: Sequence[str]
    types: Sequence[SqlType | None]
    returns: SqlType
    constants: Sequence[Any] = ()
    order: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    depth: int = 0
    python: Sequence[str] = ()

    def filled(self, template: str) -> str:
        variables = {f"v{place}": lambda_variable(self.depth, place) for place in range(2)}
        return template.format(
            *self.texts, all=", ".join(self.texts), type=self.returns.spark, **variables
        )


def lambda_variable(depth: int, place: int) -> str:
    """The name of a lambda's argument in Spark SQL: no two that stand in each other share one, and
    no column has one like it."""
    return f"__l{depth}_{place}"


SparkText: TypeAlias = str | Callable[[Call], str]
"""Spark SQL: `{0}` is the first argument, `{all}` all of them, `{type}` Spark's type of the result;
or what makes it."""
Returns: TypeAlias = Callable[[Sequence[SqlType | None]], SqlType]
MakeAggregation: TypeAlias = Callable[[Call], Aggregation]


@dataclass(frozen=True, slots=True)
class Parameter:
    pattern: Pattern
    name: str


@dataclass(frozen=True, slots=True)
class Signature:
    """`variadic` is the place of the parameter that may come any number of times; -1: none.
    `variables` is what the arguments of a lambda are in Spark SQL, if not `{v0}`, `{v1}`.
    `python` is how Python computes it."""

    parameters: tuple[Parameter, ...]
    result: Pattern
    spark: SparkText
    variadic: int = -1
    returns: Returns | None = None
    aggregation: MakeAggregation | None = None
    variables: tuple[str, ...] = ()
    python: PythonForm | None = None

    def parameters_for(self, count: int) -> list[Parameter] | None:
        """The parameters of a call with that many arguments."""
        if self.variadic < 0:
            return list(self.parameters) if count == len(self.parameters) else None
        again = count - (len(self.parameters) - 1)
        if again < 0:
            return None
        before, after = self.parameters[: self.variadic], self.parameters[self.variadic + 1 :]
        return [*before, *[self.parameters[self.variadic]] * again, *after]

    def text(self, name: str) -> str:
        parameters = [
            f"{each.pattern} {each.name}{'...' if place == self.variadic else ''}"
            for place, each in enumerate(self.parameters)
        ]
        return f"{name}({', '.join(parameters)})"


def signature(
    text: str,
    spark: SparkText = "",
    *,
    returns: Returns | None = None,
    aggregation: MakeAggregation | None = None,
    variables: tuple[str, ...] = (),
    python: PythonForm | Callable[..., Any] | None = None,
) -> Signature:
    """A signature from its text: `ARRAY<T> array, T... elements -> BOOLEAN`."""
    arguments, _, result = text.rpartition("->")
    reader = PatternReader(arguments)
    parameters: list[Parameter] = []
    variadic = -1
    while reader.next:
        pattern = reader.pattern()
        if reader.next == "...":
            reader.take("...")
            variadic = len(parameters)
        parameters.append(Parameter(pattern, reader.take()))
        if reader.next:
            reader.take(",")
    return Signature(
        tuple(parameters),
        PatternReader(result).pattern(),
        spark,
        variadic,
        returns,
        aggregation,
        variables,
        PythonForm(python) if python and not isinstance(python, PythonForm) else python,
    )


@dataclass(frozen=True, slots=True)
class Function:
    """`on_tables`: an aggregate that can also take a row back, so that a table may be its source.
    `constants`: the places of arguments that must be literals, from the end if below zero.
    `python` is the function that Spark calls under the name `udf`, where Spark has none itself."""

    name: str
    kind: FunctionKind
    family: str
    description: str
    signatures: tuple[Signature, ...]
    on_tables: bool = False
    constants: tuple[int, ...] = ()
    udf: str = ""
    python: Callable[..., Any] | None = None

    def constants_at(self, count: int) -> set[int]:
        """The places of arguments that must be literals, in a call with so many."""
        return {each % count for each in self.constants if -count <= each < count}


@dataclass(frozen=True, slots=True)
class Match:
    function: Function
    signature: Signature
    parameters: Sequence[Pattern]
    bound: Bound

    def parameter_types(self) -> list[SqlType | None]:
        return [concrete(each, self.bound) for each in self.parameters]

    def return_type(self, types: Sequence[SqlType | None]) -> SqlType:
        """What comes out; `types` are the arguments'."""
        if self.signature.returns is not None:
            return self.signature.returns(types)
        found = concrete(self.signature.result, self.bound)
        if found is None:
            shown = ", ".join("null" if each is None else str(each) for each in types)
            raise SqlError(
                f"Function '{self.function.name}' cannot be resolved due to ambiguous method "
                f"parameters ({shown}).",
                remedy="A NULL has no type: say which one is meant, as in CAST(NULL AS STRING).",
            )
        return found


class Functions:
    """All functions that a statement may call, by name; names are in upper case."""

    def __init__(self, functions: Iterable[Function] = ()) -> None:
        self._functions: dict[str, Function] = {}
        for each in functions:
            assert each.name not in self._functions, f"{each.name} twice"
            self._functions[each.name] = each

    def __iter__(self) -> Iterator[Function]:
        return iter(sorted(self._functions.values(), key=lambda each: each.name))

    def __len__(self) -> int:
        return len(self._functions)

    def find(self, name: str) -> Function | None:
        return self._functions.get(name.upper())

    def get(self, name: str) -> Function:
        found = self.find(name)
        if found is None:
            raise SqlError(
                f"Can't find any functions with the name '{name}'", remedy=self._remedy(name)
            )
        return found

    def include(self, functions: Iterable[Function]) -> None:
        """More of them, from a server's own modules, at its start. ksqlDB's names are taken."""
        for each in functions:
            known = self._functions.get(each.name)
            if known is not None and known.family != each.family:
                raise SqlError(
                    f"Function {each.name} exists already.",
                    remedy="Give yours another name: @udf(name=...).",
                )
            self._functions[each.name] = each

    def plus(self, functions: Iterable[Function]) -> Functions:
        """These and others; one of the same name is replaced."""
        more = {each.name: each for each in functions}
        return Functions({**self._functions, **more}.values())

    def resolve(self, name: str, shapes: Sequence[Shape]) -> Match:
        """The signature that fits best: fewest and shortest widenings, first in the table."""
        function = self.get(name)
        found: tuple[int, Match] | None = None
        for each in function.signatures:
            fit = _fit(function, each, shapes)
            if fit is not None and (found is None or fit[0] < found[0]):
                found = fit
        if found is None:
            raise _refused(function, shapes)
        return found[1]

    def _remedy(self, name: str) -> str:
        near = get_close_matches(name.upper(), self._functions, NAMES_LIKE_IT_MAX)
        meant = f"Did you mean {' or '.join(near)}? " if near else ""
        return f"{meant}SHOW FUNCTIONS lists all that there are."


def _fit(function: Function, tried: Signature, shapes: Sequence[Shape]) -> tuple[int, Match] | None:
    parameters = tried.parameters_for(len(shapes))
    if parameters is None:
        return None
    bound = Bound()
    patterns = [each.pattern for each in parameters]
    cost = 2 if tried.variadic >= 0 else 0
    for pattern, shape in zip(patterns, shapes, strict=True):
        step = match(pattern, shape, bound)
        if step is None:
            return None
        cost += 4 * step
    return cost, Match(function, tried, patterns, bound)


def _refused(function: Function, shapes: Sequence[Shape]) -> SqlError:
    shown = ", ".join("null" if each is None else str(each) for each in shapes)
    accepted = "\n".join(each.text(function.name) for each in function.signatures)
    return SqlError(
        f"Function '{function.name}' does not accept parameters ({shown}).\n"
        f"Valid alternatives are:\n{accepted}",
        remedy=f"DESCRIBE FUNCTION {function.name} tells more about each of them.",
    )
