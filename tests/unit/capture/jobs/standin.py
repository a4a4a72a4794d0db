"""An accelerator for tests, in Python: what is launched on one of its streams is done when the stream is let go on.

Tensors of it are real tensors of torch on a device of their own (PrivateUse1); their elements lie in host memory that
holds rubbish until the work that fills it is done, and again after the memory was freed and may be used anew.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import torch
from torch.utils import backend_registration

RUBBISH = 0xAB
NAME = "standin"


class Mark:
    """One thing that a stream has to do."""

    def __init__(self, work: Callable[[], object] | None, needs: tuple[Mark, ...] = ()) -> None:
        self.work, self.needs, self.is_done = work, needs, False


class Stream:
    """Does what it was given in order, when it is let go on."""

    all: ClassVar[list[Stream]] = []

    def __init__(self, device: Any = None) -> None:
        self._marks: deque[Mark] = deque()
        self.is_stuck = False
        Stream.all.append(self)

    def push(self, work: Callable[[], object] | None, needs: tuple[Mark, ...] = ()) -> Mark:
        mark = Mark(work, needs)
        self._marks.append(mark)
        return mark

    def wait_event(self, event: Event) -> None:
        self.push(None, (event.mark,))

    def go_on(self) -> bool:
        """Do what can be done; return whether anything was."""
        done = 0
        while self._marks and not self.is_stuck and all(need.is_done for need in self._marks[0].needs):
            mark = self._marks.popleft()
            if mark.work is not None:
                mark.work()
            mark.is_done = True
            done += 1
        return done > 0


class Event:
    """Is done when its stream has done what it had to do when the event was recorded."""

    def __init__(self) -> None:
        self.mark = Mark(None)
        self.mark.is_done = True

    def record(self, stream: Stream | None = None) -> None:
        self.mark = (stream or MODULE.current_stream()).push(None)

    def query(self) -> bool:
        if MODULE.is_capturing:
            raise RuntimeError("operation not permitted when stream is capturing")
        return self.mark.is_done


class Module:
    """What torch has for devices of a type."""

    Stream, Event = Stream, Event

    def __init__(self) -> None:
        self._here = threading.local()
        self._default: Stream | None = None
        self.waits = 0
        """How often the host had to wait."""
        self.is_capturing = False
        self.free_bytes = 1 << 40
        self.seed = 7

    def is_initialized(self) -> bool:
        return True

    is_available = is_initialized

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        self.seed = seed

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def is_current_stream_capturing(self) -> bool:
        return self.is_capturing

    def current_stream(self, device: Any = None) -> Stream:
        if self._default is None:
            self._default = Stream()
        return getattr(self._here, "stream", None) or self._default

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before = getattr(self._here, "stream", None)
        self._here.stream = stream
        try:
            yield
        finally:
            self._here.stream = before

    def get_rng_state(self, device: int) -> torch.Tensor:
        return torch.tensor([self.seed, device], dtype=torch.uint8)

    def set_rng_state(self, state: torch.Tensor, device: int) -> None:
        self.seed = int(state[0])

    def wait(self) -> None:
        """Let the host wait for everything."""
        self.waits += 1
        go_on()


def go_on(first: Stream | None = None) -> None:
    """Let all streams go on until nothing can be done; one of them may run ahead as far as it can."""
    if first is not None:
        first.go_on()
    while sum(stream.go_on() for stream in Stream.all):
        pass


class Block:
    """Memory of the device; freed, it may be used again behind what its stream has to do then."""

    def __init__(self, host: torch.Tensor) -> None:
        self.host, self.stream, self.users = host, MODULE.current_stream(), []

    def __del__(self) -> None:
        host = self.host
        needs = [user.push(None) for user in self.users]
        self.stream.push(lambda: all(need.is_done for need in needs) and rubbish(host))


class DeviceTensor(torch.Tensor):
    """A tensor on the device."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: torch.Tensor, block: Block | None = None) -> Self:
        made = torch._C._acc.create_empty_tensor(list(host.shape), host.dtype)
        made.__class__ = cls
        return made

    def __init__(self, host: torch.Tensor, block: Block | None = None) -> None:
        self.host, self.block = host, block or Block(host)

    # torch makes no tensor of this kind without dimensions; the host has the true form.
    shape = property(lambda self: self.host.shape)  # type: ignore[assignment]

    def dim(self) -> int:
        return self.host.dim()

    def numel(self) -> int:
        return self.host.numel()

    def detach(self) -> DeviceTensor:
        return DeviceTensor(self.host, self.block)

    def view(self, *form: Any) -> DeviceTensor:
        # torch makes a view of another dtype into a tensor that knows nothing of ours.
        return DeviceTensor(self.host.view(*form), self.block)

    def record_stream(self, stream: Stream) -> None:
        self.block.users.append(stream)


def on_device(host: torch.Tensor) -> DeviceTensor:
    """Return a copy of a tensor that is on the device already."""
    return DeviceTensor(host.clone())


def launch(tensor: DeviceTensor, work: Callable[[torch.Tensor], object]) -> None:
    """Have the memory of a tensor changed as a backend does it, of whose writing torch counts nothing."""
    host = tensor.host
    MODULE.current_stream().push(lambda: work(host))


def rubbish(host: torch.Tensor) -> torch.Tensor:
    if host.numel():
        host.as_strided((host.untyped_storage().nbytes() // host.element_size(),), (1,), 0).view(torch.uint8).fill_(
            RUBBISH
        )
    return host


def _each(value: Any, form: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return form(value)
    if isinstance(value, list):
        return [_each(part, form) for part in value]
    return tuple(_each(part, form) for part in value) if isinstance(value, tuple) else value


def _host(tensor: torch.Tensor) -> torch.Tensor:
    if isinstance(tensor, DeviceTensor):
        return tensor.host
    assert tensor.device.type != NAME, "torch made a view that this accelerator was not asked for"
    return tensor


def _made(size: Any, stride: Any, dtype: torch.dtype) -> DeviceTensor:
    host = rubbish(torch.empty_strided(size, stride, dtype=dtype))
    MODULE.free_bytes -= host.numel() * host.element_size()
    if MODULE.free_bytes < 0:
        raise torch.OutOfMemoryError("the device has no memory left")
    return DeviceTensor(host)


def _copy(source: torch.Tensor, target: torch.Tensor, non_blocking: bool) -> torch.Tensor:
    given, place = _host(source), _host(target)
    if not isinstance(source, DeviceTensor):
        given = given.clone()
    work = lambda: place.copy_(given)  # noqa: E731
    if isinstance(target, DeviceTensor) or (non_blocking and id(target) in PINNED):
        MODULE.current_stream().push(work)
    else:
        MODULE.wait()
        work()
    return target


def _run(op: Any, *arguments: Any, **options: Any) -> Any:
    """Launch one operation of torch."""
    name = op._schema.name.removeprefix("aten::")
    options = {key: value for key, value in options.items() if key not in {"device", "pin_memory", "layout"}}
    if name in {"_copy_from", "_copy_from_and_resize"}:
        return _copy(arguments[0], arguments[1], bool(arguments[2]) if len(arguments) > 2 else False)
    hosts = _each(list(arguments), _host)
    given = dict(zip((said.name for said in op._schema.arguments), arguments, strict=False)) | options
    options = {key: _each(value, _host) for key, value in options.items()}
    if name == "_local_scalar_dense":
        MODULE.wait()
        return op(*hosts)
    written = [
        given[said.name] for said in op._schema.arguments
        if said.alias_info is not None and said.alias_info.is_write and said.name in given
    ]  # fmt: skip
    if written:
        MODULE.current_stream().push(lambda: op(*hosts, **options))
        return written[0] if len(op._schema.returns) == 1 else tuple(written)
    if any(said.alias_info is not None for said in op._schema.returns):
        return _each(op(*hosts, **options), lambda host: DeviceTensor(host, arguments[0].block))
    shown = op(
        *_each(hosts, lambda host: host.to("meta")), **options, **({"device": "meta"} if "empty" in name else {})
    )
    made = _each(shown, lambda one: _made(one.shape, one.stride(), one.dtype))
    if "empty" not in name:
        several = made if isinstance(made, tuple) else (made,)
        targets = [one.host for one in several]

        def work() -> None:
            found = op(*hosts, **options)
            for target, value in zip(targets, found if isinstance(found, tuple) else (found,), strict=True):
                target.copy_(value)

        MODULE.current_stream().push(work)
    return made


PINNED: dict[int, torch.Tensor] = {}
_empty = torch.empty


def _empty_or_pinned(*arguments: Any, pin_memory: bool = False, **options: Any) -> torch.Tensor:
    made = _empty(*arguments, **options)
    if pin_memory:
        PINNED[id(made)] = rubbish(made)
    return made


MODULE = Module()
torch.empty = _empty_or_pinned
backend_registration._setup_privateuseone_for_python_backend(NAME, MODULE)
_library = torch.library.Library("_", "IMPL")
_library.fallback(_run, "PrivateUse1")
_functional = torch.library.Library("aten", "IMPL")
for _name, _overload in (
    ("abs", "default"), ("aminmax", "default"), ("amax", "default"), ("amin", "default"), ("clone", "default"),
    ("eq", "Tensor"), ("gt", "Scalar"), ("logical_and", "default"), ("lt", "Scalar"), ("mul", "Tensor"),
    ("ne", "Scalar"),
):  # fmt: skip
    _functional.impl(
        _name if _overload == "default" else f"{_name}.{_overload}",
        functools.partial(_run, getattr(getattr(torch.ops.aten, _name), _overload)),
        "PrivateUse1",
    )
