"""What makes a page a recipe: options that are checked, a run that is begun, planned and finished."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeAlias, TypeVar, get_type_hints

from longtail.data.dataset import Dataset, must_be_dataset
from longtail.data.shape import Shape
from longtail.devices import choose_device
from longtail.errors import BadInput
from longtail.files import remove_folder
from longtail.locks import alone
from longtail.model import Model, open_model
from longtail.options import NATURAL, POSITIVE, option, options_of, parsed, stored, text_of, time_of
from longtail.shards.shard import Shards
from longtail.stages.alongside import Alongside, runs_at_once
from longtail.stages.budget import choice
from longtail.stages.finished import finish
from longtail.stages.inputs import inputs_of
from longtail.stages.preset import Preset
from longtail.stages.refit import forget_within, further_runs, with_refits
from longtail.stages.signature import arguments, signature
from longtail.train.plan import Plan, Planned
from longtail.train.run import Run
from longtail.units import duration

P = ParamSpec("P")
Recipe: TypeAlias = Callable[..., Any]  # a data set, and options by name, to a model
MADE: dict[str, Recipe] = {}  # every recipe by its name, for those that train another one on the way
_FEW = 500  # documents, of which fewer make a user wonder
_EXPECT = "the model goes by the words that texts share; from some hundreds of documents on it learns more"
_SHARDS = "shards"  # the option, which a run keeps where it was left to the processes
SCORED = "held-out score"  # in a plan, of stages that are scored while they are trained


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The run.

    Attributes:
        out: the run folder, for checkpoints, the log and the model, or a `Run`; nothing is written if left out.
        reads_pairs: whether the recipe learns from true pairs, or from texts alone.
    """

    reads_pairs: ClassVar[bool] = True

    out: str | Path | Run | None = None
    seed: int = option(0, "of all random numbers", within=NATURAL)
    device: str = option("auto", "cpu, cuda, or auto for a GPU where there is one")
    budget: float | None = option(
        None,
        "the time that the run may take, such as 90s, 10m or 2h: it has as many epochs as fit into that, twice those "
        "that it would have without at most, or, of unidec with a refit, as many runs; see docs/guides/time.md",
        within=POSITIVE,
        time=True,
    )
    shards: int = option(
        0,
        "parts that steps are taken in, a multiple of the processes that torchrun starts; as many as these if 0; a run "
        "keeps them, however many processes go on with it; see docs/guides/cluster.md",
        within=NATURAL,
    )
    evaluate_every: int = option(
        0,
        "epochs after which held-out documents are ranked, and the mean of P@1, P@3 and P@5 goes into the log and the "
        "report; 0 for never",
        within=NATURAL,
    )
    preset: str | None = option(
        None,
        "best, for all that is known to gain, in three to five times the time (unidec; docs/guides/choosing.md), or "
        "paper, for what the method's paper sets; what else is given comes before either",
        choices=("best", "paper"),
    )

    @classmethod
    def for_shape(cls, shape: Shape, given: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003
        """The defaults that differ for a data set of this shape, beside what is given."""
        return {}

    @classmethod
    def best(cls, shape: Shape, given: Mapping[str, Any]) -> dict[str, Any] | None:  # noqa: ARG003
        """The same of all that is known to gain, in several times the time; None where nothing is."""
        return None

    def check(self, dataset: Dataset) -> None:
        """Refuse, with `BadInput`, what does not go with a data set, before a run begins."""

    def advice(self, dataset: Dataset) -> list[str]:  # noqa: ARG002
        """Lines that a user is told before a run on a data set."""
        return []

    def for_budget(self) -> Sequence[Mapping[str, Any]]:
        """The settings that a budget chooses from, those that take the least time first; () for no choice."""
        return ()

    def for_refit(self) -> Sequence[Mapping[str, Any]]:
        """What is different in each further run, on every document, that takes the fusion of the first; () for none."""
        return ()


Given = TypeVar("Given", bound=RunOptions)
Made = TypeVar("Made", bound=Model)
_Page: TypeAlias = Callable[[Run, Dataset, Given], Made]


def recipe(
    options: Callable[P, Given], *, paper: Preset | None = None
) -> Callable[[_Page[Given, Made]], Callable[Concatenate[Dataset, P], Made]]:
    """Make a recipe of a page: a function of a data set and of options by name, which trains a model.

    Args:
        options: the class of its options.
        paper: what its paper sets.
    """
    assert isinstance(options, type)

    def made(page: _Page[Given, Made]) -> Callable[Concatenate[Dataset, P], Made]:
        @wraps(page)
        def train(dataset: Dataset, /, *positional: P.args, **given: P.kwargs) -> Made:
            assert not positional, "options are given by name"
            must_be_dataset(dataset)
            run = Run.of(given.pop("out", None))
            chosen, preset = defaults_on(dataset, train, given), given.get("preset") == "paper"
            o: Given = parsed(options, page.__name__, {**chosen, **given})
            size = f"{len(dataset.train):,} training documents"
            why = size if paper is None or not preset else f"the paper's settings for {paper.whose(dataset.name)}"
            page_of = "explanation/reproducing" if preset else "guides/choosing"
            said = [f"{why}: {_said(chosen)} (docs/{page_of}.md)"] if chosen else []
            said += o.advice(dataset) + (paper.longer(o, dataset) if paper else [])
            return _trained(page, run, dataset, o, said)

        makes = get_type_hints(page).get("return", Model)
        train.__signature__ = signature(options, makes)  # type: ignore[attr-defined]
        train.__annotations__ = {"dataset": Dataset, **get_type_hints(options), "return": makes}
        train.__doc__ = f"{inspect.getdoc(page)}\n\n{arguments(options)}"
        train.options, train.paper = options, paper  # type: ignore[attr-defined]
        MADE[page.__name__] = train
        return train

    return made


def options_class(of: Recipe) -> type[RunOptions]:
    """The class of a recipe's options."""
    kind: type[RunOptions] = of.options  # type: ignore[attr-defined]
    return kind


def defaults_on(dataset: Dataset, of: Recipe, given: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of a recipe that differ on a data set, beside what is given: its paper's, or those for its shape.

    Raises:
        BadInput: a preset is asked for that the recipe has not.
    """
    kind, preset, shape = options_class(of), given.get("preset"), Shape.of(dataset)
    paper: Preset | None = of.paper  # type: ignore[attr-defined]
    if preset == "paper":
        settings = None if paper is None else paper.of(dataset, given)
    else:
        settings = kind.best(shape, given) if preset == "best" else kind.for_shape(shape, given)
    if settings is None:
        raise BadInput("preset", f"{of.__name__} has none that is called {preset}", remedy="leave it out")
    return {name: value for name, value in settings.items() if name not in given}


def _trained(page: _Page[Given, Made], run: Run, dataset: Dataset, o: Given, said: Sequence[str]) -> Made:
    """Run a page: once for its plan, unless it is under way or a part of another's, and then in earnest.

    Args:
        page: of the recipe.
        run: where it trains.
        dataset: what it trains on.
        o: the options.
        said: lines before the plan, as of those among them that nobody gave by name.
    """
    run.evaluate_every = o.evaluate_every
    model: Made | None
    if run.plan is not None:
        run.recipe, run.seed, run.device = page.__name__, o.seed, choose_device(o.device)
        model = _fitted(page, run, dataset, o)
        return model
    first, ranks = run.ranks.first, run.ranks
    with alone(run.progress.folder if first else None):
        ranks.in_turn(lambda: _begin(page, run, dataset, o))  # the first looks at the folder, and mends what it must
        model = _finished(run)
        if model is not None:
            return model
        cut(run, o)
        if not (run.planned or ranks.told(run.progress.begun())):
            if first:
                _prepare(page, run, dataset, o, said)
            elif run.dry:
                raise Planned
            run.progress.chosen = ranks.told(run.progress.chosen)
        run.progress.claim()  # of a run within another, too, before there is one within that
        model = finish(run, _fitted(page, run, dataset, _as_chosen(o, run)))
        if run.folder is not None and first:
            forget_within(run.folder)
        return model


def _begin(page: _Page[Given, Any], run: Run, dataset: Dataset, o: Given) -> None:
    """Make sure that the folder of a run is free, or its own."""
    defaults, given = {name: known.default for name, known in options_of(type(o)).items()}, stored(o)
    inputs = {} if run.progress.folder is None else inputs_of(given)
    run.begin(page.__name__, dataset, given, seed=o.seed, device=o.device, defaults=defaults, inputs=inputs)


def _prepare(page: _Page[Given, Made], run: Run, dataset: Dataset, o: Given, said: Sequence[str]) -> None:
    """Refuse what does not go with the data, say what is to be said before a run, and plan it."""
    o.check(dataset)
    for line in said:
        run.log.say(line)
    if len(dataset.train) < _FEW:
        run.log.say(_EXPECT)
    with run.log.parts("reading and planning"):
        _plan(page, run, dataset, o)


def cut(run: Run, o: RunOptions) -> None:
    """Cut the steps of a run into its shards: those it has, or was asked for, or is a part of, or as many as processes.

    Raises:
        BadInput: the processes do not divide them.
    """
    world = run.ranks.world
    if run.shards is None:
        count = int(run.progress.chosen.get(_SHARDS, 0)) or o.shards or world
        if count % world:
            problem = f"expected a number of processes that divides the {count} shards of the run, found {world}"
            raise BadInput("torchrun", problem, remedy=f"start {count} processes, or a divisor of that")
        run.shards = Shards(count, run.ranks) if count > 1 else None
    if run.shards is not None and not o.shards:
        run.progress.chosen = {**run.progress.chosen, _SHARDS: run.shards.count}


def _plan(page: _Page[Given, Made], run: Run, dataset: Dataset, o: Given) -> None:
    """Choose what a budget leaves to be chosen, say what the run is going to do, and let it begin."""

    def plan_of(chosen: Given) -> Plan:
        with run.planning() as plan:
            _fitted(page, run, dataset, chosen)
        return plan

    chosen = run.progress.chosen
    if o.budget is not None and not set(chosen) - {_SHARDS}:
        found = choice(o.for_budget(), o.budget, run.since, lambda different: plan_of(replace(o, **different)).seconds)
        run.progress.chosen = {**chosen, **found}
    plan = plan_of(_as_chosen(o, run))
    if o.evaluate_every and SCORED not in plan.work:
        problem = "no stage of the recipe ranks held-out documents while it is trained, or none are held out"
        remedy = "leave it out" + (", or give validation, as 0.05" if getattr(o, "validation", None) == 0 else "")
        raise BadInput("evaluate_every", problem, remedy=remedy)
    run.log.show(plan.table())
    if o.budget is not None and set(run.progress.chosen) - {_SHARDS}:
        run.log.say(f"budget of {time_of(o.budget)}: {_said(run.progress.chosen)}, about {duration(plan.seconds)}")
    if run.dry:
        raise Planned
    run.progress.claim()
    run.log.write(plan=plan.as_json())


def _as_chosen(o: Given, run: Run) -> Given:
    """Options with what was chosen for the run."""
    return replace(o, **{name: type(getattr(o, name))(value) for name, value in run.progress.chosen.items()})


def _said(settings: Mapping[str, Any]) -> str:
    """Settings as they are given by name, but for the shards."""
    return ", ".join(f"{name}={text_of(value)}" for name, value in settings.items() if name != _SHARDS)


def _fitted(page: _Page[Given, Any], run: Run, dataset: Dataset, o: Given) -> Any:
    """What a page makes; where its options say so, beside some of all documents, with the fusion learned on some."""

    def again(within: Run, different: Mapping[str, Any]) -> Any:
        return _trained(page, within, dataset, replace(o, **different), ())

    def claim(name: str) -> None:
        within = run.within(name)
        _begin(page, within, dataset, replace(o, **settings[name]))
        within.progress.claim()

    settings = further_runs(o.for_refit())
    alongside = Alongside(run, [*settings], runs_at_once(run, dataset, o, len(settings)), claim)
    with alongside():
        return with_refits(page(run, dataset, o), run, dataset.train, settings, alongside, again)


def _finished(run: Run) -> Any:
    """The model of a run that was finished before; None where there is none, or a broken one, which is made again."""
    folder = run.progress.folder
    if folder is None or not (folder / "model").is_dir():
        return None
    try:
        model = open_model(folder / "model", device=run.device)
    except BadInput as error:
        run.log.say(f"making the model again from its stages: {error.where}: {error.problem}")
        return None
    if run.ranks.first:
        remove_folder(folder / "tokens")
        forget_within(folder)
    return model
