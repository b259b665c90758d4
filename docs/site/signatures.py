"""What the reference shows of a signature: a griffe extension, which mkdocs.yml names.

* A default that is a private name, or says only that nothing was given, is shown as what it means.
* A class whose constructor is inherited shows it, with that class' own defaults.
* Private types are shown as the public ones that they stand for.
* Public names in docstrings are links.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from griffe import (
    Alias,
    Attribute,
    Class,
    Expr,
    ExprName,
    Extension,
    Function,
    Module,
    Object,
    Parameter,
    ParameterKind,
    Parameters,
)

PACKAGE = "curlhttp"
# Each client, with its default of http2.
CLIENTS = {
    "_api.client.Client": "False",
    "_api.async_client.AsyncClient": "True",
}
TIMEOUT = "Timeout(connect=10, read=60)"
# What users meet in place of a type that is not exported, or under another name.
PUBLIC = {
    "_client.async_client._Streaming": "AsyncStreamedResponse",
}
ALIASES = {" | _HasAuthFlow": "", "UserRequest": "Request"}
# Names of two words or in capitals are links wherever they stand, others where they are named.
PLAIN = re.compile(r"(?<![\w.`\[/\"'])([A-Z][a-z]+[A-Z]\w*|URL)(?![\w`\]/(]|\.\w)")
NAMED = re.compile(r"(?<=\b[Ss]ee )([A-Za-z_]+)\b|(?<=\b[Aa] )([A-Z][a-z]+)\b(?!\.\w)")

RAISED = re.compile(r" +[A-Z]\w+(, [A-Z]\w+)*: ")


class Signatures(Extension):
    """Prepare the package when all of it has been read."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Rewrite signatures and docstrings of the package."""
        if pkg.name != PACKAGE:
            return
        show_constructors(pkg)
        link_tree(pkg["exceptions"])
        links = exported(pkg)
        for found in objects(pkg):
            if isinstance(found, Function):
                show_defaults(found)
                show_types(found)
            elif isinstance(found, Attribute) and found.value is not None:
                show_alias(found)
            if found.docstring is not None:
                found.docstring.value = linked(found, found.docstring.value, links)


def objects(parent: Object) -> Iterator[Object]:
    """Give all functions, their overloads, classes and modules below."""
    for member in list(parent.members.values()):
        if not isinstance(member, Alias):
            yield member
            if isinstance(member, Function):
                yield from member.overloads or ()
            yield from objects(member)


def exported(pkg: Module) -> dict[str, str]:
    """Return the path of each public class by its name."""
    found = {}
    for module in (pkg, pkg["types"]):
        for name in module.exports or ():
            member = module.members.get(str(name))
            if member is not None and member.is_class:
                found[str(name)] = member.canonical_path
    found["Transport"] = ""  # of httpx' room alone
    return found


def link_tree(module: Module) -> None:
    """Link the classes of a module in its docstring."""

    def link(match: re.Match[str]) -> str:
        name = match[0]
        return f"[`{name}`][{module.path}.{name}]" if name in module.members else name

    assert module.docstring is not None
    module.docstring.value = re.sub(r"(?<![\w.])[A-Z]\w+", link, module.docstring.value)


def show_constructors(pkg: Module) -> None:
    """Show the constructor of both clients, whose keywords are the table of settings."""
    settings = pkg["_client.settings"]
    options = pkg["_client.options"]
    types = {**options["RouteOptions"].members, **options["ClientOptions"].members}
    limits = pkg["_http.config.Limits"].members
    table = ast.parse(value_of(settings, "SETTINGS"), mode="eval").body
    assert isinstance(table, ast.Dict)
    for path, http2 in CLIENTS.items():
        client = pkg[path]
        parameters = Parameters(Parameter("self"))
        for key, setting in zip(table.keys, table.values, strict=True):
            assert key is not None
            assert isinstance(setting, ast.Call)
            name, default = ast.literal_eval(key), ast.unparse(setting.args[0])
            if name == "timeout":
                default = TIMEOUT
            elif name == "http2":
                default = http2
            elif default == "UNSET":
                default = str(limits[name].value)
            annotation = types[name].annotation
            if name == "http2":
                annotation = ExprName("HTTP2", parent=settings)
            parameters.add(
                Parameter(
                    name, annotation=annotation, kind=ParameterKind.keyword_only, default=default
                )
            )
        made = Function("__init__", parameters=parameters, returns="None", parent=client)
        inherited = pkg["_client.base.BaseClient.__init__"]
        made.lineno, made.endlineno = inherited.lineno, inherited.endlineno
        client.set_member("__init__", made)


def show_defaults(function: Function) -> None:
    """Replace defaults that only the source explains."""
    for parameter in function.parameters:
        if str(parameter.default) in ("UNSET", "USE_CLIENT_DEFAULT"):
            parameter.default = f"client.{parameter.name}"
    show_constants(function)


def show_constants(function: Function) -> None:
    """Replace defaults that are constants of the module by their values."""
    for parameter in function.parameters:
        name = str(parameter.default)
        if re.fullmatch(r"_\w+|(?!UNSET)[A-Z][A-Z_]+", name):
            parameter.default = value_of(function.module, name)


def value_of(module: Module, name: str) -> str:
    """Return what a constant of a module is, as its source has it."""
    found = module.members.get(name)
    if isinstance(found, Alias):
        return value_of(found.final_target.module, found.final_target.name)
    for statement in ast.parse("\n".join(module.lines)).body:
        match statement:
            case ast.Assign([ast.Name(id=target)], value) if target == name:
                return ast.unparse(value)
            case ast.AnnAssign(ast.Name(id=target), value=ast.expr() as value) if target == name:
                return ast.unparse(value)
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):  # several at once
                named = dict(zip(map(ast.unparse, targets), values, strict=True))
                if name in named:
                    return ast.unparse(named[name])
    return name


def show_types(function: Function) -> None:
    """Show the public names of types, and type variables without an underscore."""
    for annotation in (function.returns, *(each.annotation for each in function.parameters)):
        if isinstance(annotation, Expr):
            for name in annotation.iterate(flat=True):
                if isinstance(name, ExprName):
                    public = PUBLIC.get(origin_of(name.name, function.module))
                    if public is not None:
                        name.name, name.parent = public, None  # shown as it is
                    elif name.name.startswith("_"):
                        name.name = name.name.lstrip("_")


def origin_of(name: str, module: Module) -> str:
    """Return where a name of a module comes from, within the package."""
    member = module.members.get(name)
    path = member.target_path if isinstance(member, Alias) else f"{module.path}.{name}"
    return path.removeprefix(f"{PACKAGE}.")


def show_alias(alias: Attribute) -> None:
    """Show what a type alias stands for: without quotes, and with private aliases spelled out."""
    if "TypeAlias" in str(alias.annotation):
        alias.value = spelled_out(alias.module, str(alias.value))


def spelled_out(module: Module, value: str) -> str:
    """Return a type alias without quotes and private names."""
    while value[:1] in "\"'" and value:
        value = ast.literal_eval(value)
    value = re.sub(r"['\"](\w+( \| \w+)*)['\"](?!\])", r"\1", value)
    for private in sorted(set(re.findall(r"\b_\w+", value))):
        meant = value_of(module, private)
        if value.count(private) > 1:
            value = value.replace(private, private[1:])
        elif meant != private:
            value = re.sub(rf"\b{private}\b", spelled_out(module, meant), value)
    for private, public in ALIASES.items():
        value = value.replace(private, public)
    return value


def linked(found: Object, text: str, links: dict[str, str]) -> str:
    """Return a docstring whose public names are links, but for what is indented code."""

    def link(match: re.Match[str]) -> str:
        name = match[0]
        path = links.get(name, "")
        if not path and name.islower() and found.parent is not None:
            path = method(found, name)
        itself = path in {found.path, found.canonical_path}
        return f"[`{name}`][{path}]" if path and not itself else name

    def line(text: str) -> str:
        if re.match(r"\s*(with|for|if|async|import|from) .*:$", text):
            return text
        raised = RAISED.match(text)  # mkdocstrings links it
        name, said = (raised[0], text[raised.end() :]) if raised else ("", text)
        return name + NAMED.sub(link, PLAIN.sub(link, said))

    paragraphs = text.split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        if any(each[:4].strip() for each in paragraph.split("\n")):  # else it is code
            paragraphs[number] = "\n".join(map(line, paragraph.split("\n")))
    return "\n\n".join(paragraphs)


def method(found: Object, name: str) -> str:
    """Return the path of a method of the same class that readers are sent to, or ""."""
    owner = found if isinstance(found, Class) else found.parent
    if not isinstance(owner, Class) or name not in ("build_request", "request"):
        return ""
    if owner.path.startswith(f"{PACKAGE}._client."):
        return f"{PACKAGE}._api.client.Client.{name}"
    return f"{owner.path}.{name}"
