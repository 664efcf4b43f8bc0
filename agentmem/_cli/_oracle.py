"""Commands that set up and check an Oracle database.

Passwords are never arguments: they come from the environment or are asked for.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from agentmem._cli._console import console, errors
from agentmem.config import Settings, secret
from agentmem.errors import ConfigurationError

if TYPE_CHECKING:
    from agentmem.backends.oracle.admin import Plan, StepState

app = typer.Typer(no_args_is_help=True, help="Set up and check an Oracle database.")

_COLOURS = {"ok": "green", "warning": "yellow", "fault": "red"}

Owner = Annotated[str, typer.Option(help="Schema that will own the tables.")]
App = Annotated[str, typer.Option(help="User that applications log on as.")]
Embedder = Annotated[
    str, typer.Option(help="As in the settings; 'database:NAME' for a model in the database.")
]
Dimensions = Annotated[
    int | None, typer.Option(help="Length of the vectors; needed for a model in the database.")
]
Index = Annotated[str, typer.Option(help="Vector index: none (exact search), ivf or hnsw.")]
Lexer = Annotated[
    str,
    typer.Option(
        help="terms (our own terms in every language), or a lexer of Oracle: basic, world, "
        "chinese, japanese, korean."
    ),
]
Tablespace = Annotated[str, typer.Option(help="Tablespace of the owner.")]
Models = Annotated[
    list[str] | None, typer.Option("--model", help="Model that the application user may run.")
]
Url = Annotated[
    str | None,
    typer.Option(help="oracle://USER@HOST:PORT/SERVICE; AGENTMEM_URL when not given."),
]


@app.command()
def ddl(
    owner: Owner = "mem_owner",
    app_user: Annotated[str, typer.Option("--app", help="User of applications.")] = "mem_app",
    embedder: Embedder = "default",
    dimensions: Dimensions = None,
    vector_index: Index = "none",
    lexer: Lexer = "terms",
    tablespace: Tablespace = "users",
    model: Models = None,
    undo: Annotated[bool, typer.Option("--undo", help="Print what takes it back.")] = False,
) -> None:
    """Print the set-up as one script, to be read and run by hand."""
    from agentmem.backends.oracle import admin

    plan = _plan(owner, app_user, embedder, dimensions, vector_index, lexer, tablespace, model)
    typer.echo(admin.script(plan, undo=undo))


@app.command()
def init(
    url: Url = None,
    owner: Owner = "mem_owner",
    admin_user: Annotated[
        str | None,
        typer.Option(
            help="Administrator who makes the users (password: AGENTMEM_ORACLE_ADMIN_PASSWORD); "
            "leave it out when the users exist."
        ),
    ] = None,
    embedder: Embedder = "default",
    dimensions: Dimensions = None,
    vector_index: Index = "none",
    lexer: Lexer = "terms",
    tablespace: Tablespace = "users",
    model: Models = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Set up the database, after showing what will be done.

    The URL names the user of applications. Running it again goes on where it stopped.
    """
    from agentmem.backends.oracle import admin, read_target

    settings = _settings(url)
    target = read_target(settings)
    plan = _plan(owner, target.user, embedder, dimensions, vector_index, lexer, tablespace, model)
    administrator = None
    if admin_user is not None:
        administrator = admin.log_on(target, admin_user, _secret("ADMIN_PASSWORD", admin_user))
    owner_password = _secret("OWNER_PASSWORD", owner)
    passwords = {"owner_password": owner_password, "app_password": target.password}
    work = admin.SetUp(plan, administrator, admin.log_on(target, owner, owner_password), passwords)

    async def run() -> None:
        found = await work.states()
        console.print(_step_table(plan, found))
        if not yes and not typer.confirm("Do what is not done yet?"):
            raise typer.Exit(1)
        with Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=errors
        ) as progress:
            task = progress.add_task("", total=len(found))
            async for name in work.run():
                progress.update(task, description=name, advance=1)
        console.print(f"The schema {plan.owner} is set up for {plan.meta.embedder!r}.")

    asyncio.run(run())


@app.command()
def doctor(
    url: Url = None,
    rerank_model: Annotated[
        str | None, typer.Option(help="A reranker in the database to be tried as well.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check version, privileges, security, text index, models and clock by using them."""
    from agentmem.backends.oracle import admin, read_target

    checks = asyncio.run(admin.examine(read_target(_settings(url)), rerank_model))
    if as_json:
        rows = [
            {"name": c.name, "state": c.state, "message": c.message, "advice": c.advice}
            for c in checks
        ]
        typer.echo(json.dumps(rows, indent=2))
    else:
        for check in checks:
            colour = _COLOURS[check.state]
            advice = f" -> {check.advice}" if check.advice else ""
            console.print(
                f"[{colour}]{check.state:<8}[/] [bold]{check.name}[/]: {check.message}{advice}",
                soft_wrap=True,
            )
    if any(check.state == "fault" for check in checks):
        raise typer.Exit(1)


@app.command()
def models(
    out: Annotated[Path, typer.Option(help="Folder for the graphs.")] = Path("oracle-models"),
    embedder: Annotated[
        str | None, typer.Option(help="Folder or hub id; the bundled embedder when not given.")
    ] = None,
    reranker: Annotated[
        str | None, typer.Option(help="Folder or hub id; the bundled cross-encoder when not given.")
    ] = None,
    load: Annotated[
        bool, typer.Option("--load", help="Load them into the owner's schema as well.")
    ] = False,
    owner: Owner = "mem_owner",
    url: Url = None,
) -> None:
    """Build the graphs that the database can run: texts in, a vector or a score out.

    They are called mem_embedder and mem_reranker in the database. Each is compared with the
    client's own model before it counts as built.
    """
    from agentmem.backends.oracle import admin, read_target
    from agentmem.models.database_graphs import build_cross_encoder, build_embedder

    out.mkdir(parents=True, exist_ok=True)
    built = {
        "mem_embedder": build_embedder(embedder, out / "mem_embedder.onnx"),
        "mem_reranker": build_cross_encoder(reranker, out / "mem_reranker.onnx"),
    }
    for name, graph in built.items():
        (out / f"{name}.json").write_text(json.dumps(graph.metadata, indent=2), encoding="utf-8")
        domains = ", ".join(graph.domains)
        console.print(
            f"{graph.path}: {graph.bytes:,} bytes, opset {graph.opset}, operators of {domains}"
        )
    least = asyncio.run(_least_cosine(embedder, out / "mem_embedder.onnx"))
    console.print(f"least cosine between graph and client: {least:.4f}")
    order = asyncio.run(_same_order(reranker, out / "mem_reranker.onnx"))
    console.print(f"least share of pairs that graph and client order alike: {order:.4f}")
    if not load:
        return
    target = read_target(_settings(url))
    who = admin.log_on(target, owner, _secret("OWNER_PASSWORD", owner))
    for name, graph in built.items():
        asyncio.run(admin.load_model(who, name, graph.path.read_bytes(), graph.metadata))
        console.print(f"loaded {name} into {owner}")


_SAMPLES = [
    "A cup of tea, please.",
    "ERR-4711: connection reset by peer",
    "東京タワーに行きました。",
    "Crème brûlée à la carte",
    "🦉 owls hunt at night " * 40,
    ".",
]


async def _least_cosine(embedder: str | None, graph: Path) -> float:
    """Return how near the graph's vectors are to the client's, at the least."""
    from agentmem.models.database_graphs import verify_embedder
    from agentmem.models.registry import DEFAULT, load_embedder

    client = load_embedder(embedder or DEFAULT)
    try:
        report = await verify_embedder(graph, client, _SAMPLES)
    finally:
        await client.close()
    return report.least


async def _same_order(reranker: str | None, graph: Path) -> float:
    """Return for how many of all pairs of texts the graph's order is the client's, at the least."""
    from agentmem.models._files import BUNDLED_CROSS_ENCODER
    from agentmem.models.database_graphs import verify_cross_encoder
    from agentmem.models.onnx_reranker import CrossEncoderReranker

    client = CrossEncoderReranker(reranker or BUNDLED_CROSS_ENCODER)
    try:
        report = await verify_cross_encoder(graph, client, {text: _SAMPLES for text in _SAMPLES})
    finally:
        await client.close()
    return report.least


def _settings(url: str | None) -> Settings:
    given: dict[str, Any] = {} if url is None else {"url": url}
    settings = Settings(**given)
    if not settings.url.startswith("oracle://"):
        raise ConfigurationError(
            "these commands need a database; give --url oracle://USER@HOST:PORT/SERVICE or set "
            "AGENTMEM_URL"
        )
    return settings


def _secret(name: str, user: str) -> str:
    return secret(f"ORACLE_{name}") or str(typer.prompt(f"Password of {user}", hide_input=True))


def _plan(
    owner: str,
    app_user: str,
    embedder: str,
    dimensions: int | None,
    vector_index: str,
    lexer: str,
    tablespace: str,
    models: list[str] | None,
) -> Plan:
    from agentmem.backends.oracle import admin

    identity = _embedder(embedder, dimensions)
    return admin.make_plan(
        owner,
        app_user,
        meta=admin.make_meta(*identity, vector_index=vector_index, lexer=lexer),
        tablespace=tablespace,
        models=models or (),
    )


def _embedder(name: str, dimensions: int | None) -> tuple[str, int, int | None]:
    """Return id, dimensions and token dimensions of an embedder."""
    from agentmem._in_database import PREFIX, in_database
    from agentmem.models.registry import load_embedder

    model = in_database(name)
    if model is not None:
        if dimensions is None:
            raise ConfigurationError(f"say how long the vectors of {name!r} are: --dimensions N")
        return f"{PREFIX}{model.lower()}", dimensions, None
    embedder = load_embedder(name)
    if dimensions not in (None, embedder.dimensions):
        raise ConfigurationError(
            f"{name!r} makes vectors of {embedder.dimensions} dimensions, not {dimensions}"
        )
    return embedder.id, embedder.dimensions, embedder.token_dimensions


def _step_table(plan: Plan, found: list[StepState]) -> Table:
    table = Table(title=f"Set-up of schema {plan.owner}")
    table.add_column("step")
    table.add_column("run as")
    table.add_column("state")
    table.add_column("what it does")
    words = {True: "done", False: "to do", None: "each time"}
    for state in found:
        table.add_row(state.step.name, state.step.run_as, words[state.done], state.step.purpose)
    return table
