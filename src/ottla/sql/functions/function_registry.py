"""The function registry: signatures of functions, and the resolution of calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final, TypeAlias

from ottla.rows.errors import SqlError
from ottla.rows.types import SqlType
from ottla.sql.functions.patterns import (
    Bound,
    Shape,
    TypePattern,
    TypePatternReader,
    concrete,
    match,
)
from ottla.sql.functions.python_form import PythonForm
from ottla.sql.functions.udaf import Udaf

NAMES_LIKE_IT_MAX: Final = 3


class FunctionKind(StrEnum):
    """The kinds of functions, as in SHOW FUNCTIONS and DESCRIBE FUNCTION."""

    SCALAR = "SCALAR"
    AGGREGATE = "AGGREGATE"
    TABLE = "TABLE"


@dataclass(frozen=True, slots=True)
class Call:
    """One call, with arguments cast to the types of parameters: `texts` for Spark, `python`.

    `constants` are the values of literal arguments. `order` gives the order of rows in a group, for
    aggregates; `settings` are those of the server; `depth` is the number of enclosing lambdas.
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
        variables = {f"v{index}": lambda_variable(self.depth, index) for index in range(2)}
        return template.format(
            *self.texts, all=", ".join(self.texts), type=self.returns.spark, **variables
        )


def lambda_variable(depth: int, index: int) -> str:
    """The name of a lambda's argument in Spark SQL, which is unique among nested lambdas, and which
    no column has."""
    return f"__l{depth}_{index}"


SparkText: TypeAlias = str | Callable[[Call], str]
"""Spark SQL in which `{0}` is the first argument, `{all}` all of them, and `{type}` Spark's type of
the result; or a function that returns it."""
Returns: TypeAlias = Callable[[Sequence[SqlType | None]], SqlType]
MakeUdaf: TypeAlias = Callable[[Call], Udaf]


@dataclass(frozen=True, slots=True)
class Parameter:
    pattern: TypePattern
    name: str


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature of a function. `variadic` is the index of the repeatable parameter; -1: none.

    `variables` are the names of a lambda's arguments in Spark SQL, by default `{v0}`, `{v1}`.
    `python` is the implementation in Python."""

    parameters: tuple[Parameter, ...]
    result: TypePattern
    spark: SparkText
    variadic: int = -1
    returns: Returns | None = None
    aggregation: MakeUdaf | None = None
    variables: tuple[str, ...] = ()
    python: PythonForm | None = None

    def parameters_for(self, count: int) -> list[Parameter] | None:
        """The parameters for a number of arguments."""
        if self.variadic < 0:
            return list(self.parameters) if count == len(self.parameters) else None
        again = count - (len(self.parameters) - 1)
        if again < 0:
            return None
        before, after = self.parameters[: self.variadic], self.parameters[self.variadic + 1 :]
        return [*before, *[self.parameters[self.variadic]] * again, *after]

    def text(self, name: str) -> str:
        parameters = [
            f"{parameter.pattern} {parameter.name}{'...' if index == self.variadic else ''}"
            for index, parameter in enumerate(self.parameters)
        ]
        return f"{name}({', '.join(parameters)})"


def signature(
    text: str,
    spark: SparkText = "",
    *,
    returns: Returns | None = None,
    aggregation: MakeUdaf | None = None,
    variables: tuple[str, ...] = (),
    python: PythonForm | Callable[..., Any] | None = None,
) -> Signature:
    """A signature from its text: `ARRAY<T> array, T... elements -> BOOLEAN`."""
    arguments, _, result = text.rpartition("->")
    reader = TypePatternReader(arguments)
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
        TypePatternReader(result).pattern(),
        spark,
        variadic,
        returns,
        aggregation,
        variables,
        PythonForm(python) if python and not isinstance(python, PythonForm) else python,
    )


@dataclass(frozen=True, slots=True)
class Function:
    """A function. `on_tables`: an aggregate with `undo`, which may be used on tables.
    `keeps_order`: its result has the order in which values came, which Spark's own one forgets.

    `constants` are the indexes of arguments that must be literals; negative ones count from the
    end. `python` is registered in Spark as `udf`, if Spark has no such function."""

    name: str
    kind: FunctionKind
    family: str
    description: str
    signatures: tuple[Signature, ...]
    on_tables: bool = False
    constants: tuple[int, ...] = ()
    keeps_order: bool = False
    udf: str = ""
    python: Callable[..., Any] | None = None

    def constants_at(self, count: int) -> set[int]:
        """The indexes of arguments that must be literals, given their number."""
        return {constant % count for constant in self.constants if -count <= constant < count}


@dataclass(frozen=True, slots=True)
class SignatureMatch:
    function: Function
    signature: Signature
    parameters: Sequence[TypePattern]
    bound: Bound

    def parameter_types(self) -> list[SqlType | None]:
        return [concrete(parameter, self.bound) for parameter in self.parameters]

    def return_type(self, types: Sequence[SqlType | None]) -> SqlType:
        """The result type, given the types of arguments."""
        if self.signature.returns is not None:
            return self.signature.returns(types)
        found = concrete(self.signature.result, self.bound)
        if found is None:
            shown = ", ".join("null" if type_ is None else str(type_) for type_ in types)
            raise SqlError(
                f"Function '{self.function.name}' cannot be resolved due to ambiguous method "
                f"parameters ({shown}).",
                remedy="CAST an untyped NULL, for example: CAST(NULL AS STRING).",
            )
        return found


class FunctionRegistry:
    """All functions by name; names are upper case."""

    def __init__(self, functions: Iterable[Function] = ()) -> None:
        self._functions: dict[str, Function] = {}
        for function in functions:
            assert function.name not in self._functions, f"{function.name} twice"
            self._functions[function.name] = function

    def __iter__(self) -> Iterator[Function]:
        return iter(sorted(self._functions.values(), key=lambda function: function.name))

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
        """Add user-defined functions, which can't have the name of a built-in one."""
        for function in functions:
            known = self._functions.get(function.name)
            if known is not None and known.family != function.family:
                raise SqlError(
                    f"Function {function.name} exists already.",
                    remedy="Choose another name: @udf(name=...).",
                )
            self._functions[function.name] = function

    def plus(self, functions: Iterable[Function]) -> FunctionRegistry:
        """A registry with more functions; those with the same name are replaced."""
        more = {function.name: function for function in functions}
        return FunctionRegistry({**self._functions, **more}.values())

    def resolve(self, name: str, shapes: Sequence[Shape]) -> SignatureMatch:
        """The best signature: with the least widening, and the first one of these."""
        function = self.get(name)
        found: tuple[int, SignatureMatch] | None = None
        for signature in function.signatures:
            fit = _fit(function, signature, shapes)
            if fit is not None and (found is None or fit[0] < found[0]):
                found = fit
        if found is None:
            raise _refused(function, shapes)
        return found[1]

    def _remedy(self, name: str) -> str:
        near = get_close_matches(name.upper(), self._functions, NAMES_LIKE_IT_MAX)
        meant = f"Did you mean {' or '.join(near)}? " if near else ""
        return f"{meant}SHOW FUNCTIONS lists all functions."


def _fit(
    function: Function, tried: Signature, shapes: Sequence[Shape]
) -> tuple[int, SignatureMatch] | None:
    parameters = tried.parameters_for(len(shapes))
    if parameters is None:
        return None
    bound = Bound()
    patterns = [parameter.pattern for parameter in parameters]
    cost = 2 if tried.variadic >= 0 else 0
    for pattern, shape in zip(patterns, shapes, strict=True):
        step = match(pattern, shape, bound)
        if step is None:
            return None
        cost += 4 * step
    return cost, SignatureMatch(function, tried, patterns, bound)


def _refused(function: Function, shapes: Sequence[Shape]) -> SqlError:
    shown = ", ".join("null" if shape is None else str(shape) for shape in shapes)
    accepted = "\n".join(signature.text(function.name) for signature in function.signatures)
    return SqlError(
        f"Function '{function.name}' does not accept parameters ({shown}).\n"
        f"Valid alternatives are:\n{accepted}",
        remedy=f"DESCRIBE FUNCTION {function.name} describes them.",
    )
