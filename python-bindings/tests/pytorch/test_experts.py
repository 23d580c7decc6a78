# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`experts` compared with bf16 matmuls for each group."""

import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from fp8moe.torch import ACTIVATIONS, experts, quantize_weights  # noqa: E402

D, H, E, M = 64, 48, 4, 60
ENDS = [0, 20, 20, 50]
# Tolerance for two successive matmuls and their gradients, with 3 mantissa bits per operand.
TOLERANCE = 0.12


pytestmark = pytest.mark.usefixtures("ir")


def tensors():
    shapes = {"x": (M, D), "gate_up": (E, 2 * H, D), "down": (E, D, H), "gate_up_bias": (E, 2 * H), "down_bias": (E, D)}
    scale = {"x": 1, "gate_up": D**-0.5, "down": H**-0.5, "gate_up_bias": 1, "down_bias": 1}
    return {name: (torch.randn(s) * scale[name]).bfloat16().requires_grad_() for name, s in shapes.items()}


def interleaved(h):
    return h[:, ::2].clamp(max=1.0) * (h[:, 1::2] + 1)


def reference(t, act, bias):
    rows = []
    for g, (begin, end) in enumerate(zip([0, *ENDS], ENDS)):
        h = t["x"][begin:end].double() @ t["gate_up"][g].double().T
        h = h + t["gate_up_bias"][g] if bias else h
        a = act(h) if act is interleaved else act(h[:, :H]) * h[:, H:]
        y = a @ t["down"][g].double().T
        rows.append(y + t["down_bias"][g] if bias else y)
    return torch.cat([*rows, torch.zeros(M - ENDS[-1], D).double()])


def run(t, activation, bias, function=experts):
    biases = {name: t[name] for name in ("gate_up_bias", "down_bias")} if bias else {}
    offsets = torch.tensor(ENDS, dtype=torch.int32)
    gate_up, down = (t[name].transpose(-2, -1) for name in ("gate_up", "down"))
    return function(t["x"], gate_up, down, offsets, activation=activation, **biases)


def gradients(y, t, bias, *more):
    torch.manual_seed(1)
    names = ["x", "gate_up", "down", *more] + (["gate_up_bias", "down_bias"] if bias else [])
    return dict(zip(names, torch.autograd.grad(y, [t[name] for name in names], torch.randn(M, D).to(y.dtype))))


def assert_near(found, expected, what):
    assert (found.double() - expected.double()).norm() <= TOLERANCE * expected.double().norm(), what


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("activation", [*ACTIVATIONS, interleaved], ids=[*ACTIVATIONS, "function"])
def test_values_and_gradients(activation, bias):
    t = tensors()
    y = run(t, activation, bias)
    exact = reference(t, ACTIVATIONS.get(activation, activation), bias)
    assert y.dtype == torch.bfloat16 and not y[ENDS[-1] :].any()
    for begin, end in zip([0, *ENDS], ENDS):
        assert_near(y[begin:end], exact[begin:end], (begin, end))
    found, expected = gradients(y, t, bias), gradients(exact, t, bias)
    for name, gradient in expected.items():
        assert_near(found[name], gradient, name)
    assert not found["x"][ENDS[-1] :].any()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("activation, bias", [("silu", False), ("silu", True), ("gelu", False), (interleaved, False)])
def test_weights_of_rows(activation, bias, compiled):
    """Routing weights multiply the results. With a bias of `down` they are applied last, else
    before the second matmul.
    """
    t = tensors()
    weights = torch.rand(M).requires_grad_()
    function = torch.compile(experts) if compiled else experts
    y = run(t, activation, bias, lambda *args, **options: function(*args, weights=weights, **options))
    exact = reference(t, ACTIVATIONS.get(activation, activation), bias) * weights.unsqueeze(1)
    assert_near(y[: ENDS[-1]], exact[: ENDS[-1]], "y")
    t["weights"] = weights
    found = gradients(y, t, bias, "weights")
    for name, gradient in gradients(exact, t, bias, "weights").items():
        assert_near(found[name], gradient, name)


def test_rows_of_no_group_are_zero_whatever_their_weight_is():
    t, weights = tensors(), torch.ones(M)
    weights[ENDS[-1] :] = float("nan")
    for bias in (False, True):
        y = run(t, "silu", bias, lambda *args, **options: experts(*args, weights=weights, **options))
        assert not y[ENDS[-1] :].any()


def test_weights_that_do_not_fit():
    t = tensors()
    for weights, message in ((torch.ones(M - 1), r"expected float32 \(60,\)"), (torch.ones(M, dtype=torch.bfloat16), "are torch.bfloat16")):
        with pytest.raises(ValueError, match=message):
            run(t, "silu", False, lambda *args, **options: experts(*args, weights=weights, **options))  # noqa: B023


def test_compiled():
    t = tensors()
    y, compiled = run(t, "silu", True), run(t, "silu", True, torch.compile(experts, fullgraph=True))
    assert_near(compiled, y, "y")  # Inductor rounds less often between the matmuls
    found = gradients(compiled, t, True)
    for name, gradient in gradients(y, t, True).items():
        assert_near(found[name], gradient, name)


def test_autocast():
    """Parameters and their gradients are float32. Results have the bits of casting before."""
    t = {name: tensor.detach().float().requires_grad_() for name, tensor in tensors().items()}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = run(t, "silu", False)
    cast = {name: tensor.detach().bfloat16().requires_grad_() for name, tensor in t.items()}
    expected = run(cast, "silu", False)
    assert y.dtype == torch.bfloat16 and torch.equal(y, expected)
    others = gradients(expected, cast, False)
    for name, gradient in gradients(y, t, False).items():
        assert gradient.dtype == torch.float32 and torch.equal(gradient, others[name].float()), name


@pytest.mark.parametrize("layout", ["expanded", "transposed", "sliced"])
def test_gradients_of_any_layout(layout):
    t = tensors()
    gradient = {
        "expanded": torch.full((1, 1), 0.5).bfloat16().expand(M, D),
        "transposed": torch.randn(D, M).bfloat16().t(),
        "sliced": torch.randn(M, 2 * D).bfloat16()[:, :D],
    }[layout]
    inputs = [t[name] for name in ("x", "gate_up", "down")]
    found = torch.autograd.grad(run(t, "silu", False), inputs, gradient)
    for result, expected in zip(found, torch.autograd.grad(run(t, "silu", False), inputs, gradient.contiguous())):
        assert torch.equal(result, expected)


def test_checkpointing():
    t = tensors()
    y = run(t, "silu", True, lambda *a, **k: checkpoint(experts, *a, use_reentrant=False, **k))
    expected = run(t, "silu", True)
    assert torch.equal(y, expected)
    others = gradients(expected, t, True)
    for name, gradient in gradients(y, t, True).items():
        assert torch.equal(gradient, others[name]), name


def test_threads():
    """Threads have their own tensors, backward included. Even the first calls are concurrent."""
    t = tensors()
    y = run(t, "silu", False)
    expected = [y.detach(), *gradients(y, t, False).values()]
    right = []
    start = threading.Barrier(4)

    def work():
        mine = {name: tensor.detach().clone().requires_grad_() for name, tensor in t.items()}
        start.wait()
        for _ in range(5):
            y = run(mine, "silu", False)
            found = torch.autograd.grad(y, [mine[name] for name in ("x", "gate_up", "down")], incoming)
            right.append(all(map(torch.equal, [y.detach(), *found], expected)))

    torch.manual_seed(1)
    incoming = torch.randn(M, D).to(y.dtype)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 20


def list_arguments():
    t = tensors()
    gate_up, down = (t[name].transpose(-2, -1) for name in ("gate_up", "down"))
    return {"x": t["x"], "gate_up": gate_up, "down": down, "offsets": torch.tensor(ENDS, dtype=torch.int32)}


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(gate_up_bias=torch.zeros(E + 1, 2 * H)), r"gate_up_bias has shape \({0}, {1}\), expected"),
        (dict(down_bias=torch.zeros(D)), r"down_bias has shape \({2},\), expected"),
        (dict(down_bias=torch.zeros(E, D, device="meta")), "down_bias is on meta, but x is on cpu; move it there"),
        (dict(activation=3), "activation is 3, expected one of silu, gelu, gelu_tanh, or a function of h"),
        (dict(activation=lambda h: h), r"down is .*, expected \[E, H, D\] with what the activation makes of h"),
        (dict(gate_up=torch.zeros(E, D, 2 * H)), "gate_up is torch.float32, expected torch.bfloat16"),
        (dict(down=torch.zeros(E, H, D)), "down is torch.float32, expected torch.bfloat16"),
        (dict(activation=lambda h: h[:, :H].float()), "the result of activation is torch.float32, expected torch.bfloat16"),
        (dict(x=torch.zeros(1, M, D).bfloat16()), r"x has shape \(1, .*; call .flatten"),
        (dict(offsets=torch.tensor(ENDS).short()), "offsets is torch.int16"),
        (dict(recipe="mxfp8"), "recipe is 'mxfp8', expected one of rowwise"),
        (dict(main_grads=(torch.zeros(E, D, 2 * H).bfloat16(), None)), r"main_grads\[0\] is torch.bfloat16, .* laid out as gate_up"),
        (dict(main_grads=(None, torch.zeros(E, D, H))), r"main_grads\[1\] is .*the shape of down, .* main_grads\[1\].transpose\(-2, -1\)"),
        (dict(gate_up=torch.zeros(E, D, 2 * H - 1).bfloat16()), "gate_up has .* columns, expected an even number"),
    ],
)
def test_refuses(change, message):
    arguments = list_arguments()
    experts(**arguments)
    with pytest.raises(ValueError, match="experts: " + message.format(E + 1, 2 * H, D)):
        experts(**{**arguments, **change})


@pytest.mark.parametrize("change", [dict(x=None), dict(x=None, down_bias=torch.zeros(E, D)), dict(gate_up_bias=[1]), dict(activation=lambda h: None)])
def test_what_is_no_tensor_is_named(change):
    arguments = list_arguments()
    with pytest.raises(TypeError, match="experts: .* is of type .*, expected a torch.Tensor"):
        experts(**{**arguments, **change})


def test_changed_weights_are_named():
    arguments = list_arguments()
    with torch.no_grad():
        kept = {name: quantize_weights(arguments[name]) for name in ("gate_up", "down")}
        for name in kept:
            experts(**{**arguments, **kept})
            arguments[name].mul_(2)
            with pytest.raises(ValueError, match=f"experts: {name}: the weights have changed"):
                experts(**{**arguments, **kept})
            kept[name] = quantize_weights(arguments[name])


def test_unknown_activation():
    with pytest.raises(ValueError, match="activation is 'swish', expected one of silu, gelu, gelu_tanh, or a func"):
        run(tensors(), "swish", False)
