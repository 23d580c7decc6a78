# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""grouped_mm and experts on a GPU: within FP8's error of float64, and as training uses them.
test/Integration compares the bits with the CPU's.
"""

import functools

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import fp8moe.torch  # noqa: E402
from fp8moe import programs  # noqa: E402
from fp8moe.torch import (  # noqa: E402
    ACTIVATIONS, SwiGLU, _down_last, _glu, _grouped_mm, _kept, _permute, _triton, permute, quantize_weights, unpermute,
)  # fmt: skip

# Recipe "auto" would choose bf16 for so few rows.
grouped_mm = functools.partial(fp8moe.torch.grouped_mm, recipe="rowwise")
experts = functools.partial(fp8moe.torch.experts, recipe="rowwise")

K, N, E, M = 64, 96, 4, 300
ENDS = {"even": [75, 150, 225, 300], "empty": [0, 120, 120, 250], "none": [0, 0, 0, 0], "one": [0, 300, 300, 300]}
TOLERANCE = 0.06  # of one matmul, as in benchmarks/moe_layer.py


@pytest.fixture(autouse=True)
def setup(request):
    """Uses the artifacts of FP8MOE_TEST_ARTIFACTS, or compiles them."""
    import os

    if "FP8MOE_TEST_ARTIFACTS" not in os.environ:
        request.getfixturevalue("ir")
    torch.manual_seed(0)
    torch.compiler.reset()  # Dynamo limits the number of graphs per function
    # Newly allocated memory has NaN until it is written.
    torch.full((1 << 22,), float("nan"), device="cuda")


def offsets(ends):
    return torch.tensor(ends, dtype=torch.int32, device="cuda")


def tensors(layout="NK"):
    """Returns x, the parameter, the weights and a gradient."""
    bf16 = dict(device="cuda", dtype=torch.bfloat16)
    parameter = torch.randn((E, N, K) if layout == "NK" else (E, K, N), **bf16).requires_grad_()
    weights = parameter.transpose(-2, -1) if layout == "NK" else parameter
    return torch.randn(M, K, **bf16).requires_grad_(), parameter, weights, torch.randn(M, N, **bf16)


def reference(x, weights, gradient, ends):
    """Returns the result and both gradients in float64, with zeros for remainder rows and empty
    groups.
    """
    x, weights, gradient = (tensor.detach().double() for tensor in (x, weights, gradient))
    y, grad_x, grad_weights = x.new_zeros(M, N), torch.zeros_like(x), torch.zeros_like(weights)
    for g, (begin, end) in enumerate(zip([0, *ends], ends)):
        y[begin:end] = x[begin:end] @ weights[g]
        grad_x[begin:end] = gradient[begin:end] @ weights[g].T
        grad_weights[g] = x[begin:end].T @ gradient[begin:end]
    return y, grad_x, grad_weights


def run(x, parameter, weights, gradient, ends, function=grouped_mm):
    y = function(x, weights, offsets(ends))
    grad_x, grad_parameter = torch.autograd.grad(y, (x, parameter), gradient)
    return y.detach(), grad_x, grad_parameter.transpose(-2, -1) if parameter.shape[1] == N else grad_parameter


def assert_near(found, expected, tolerance=TOLERANCE):
    """Compares norms. Zeros must be exact."""
    assert (found.double() - expected.double()).norm() <= tolerance * expected.double().norm()


@pytest.mark.parametrize("layout", ["NK", "KN"])
@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_values_and_gradients(layout, ends):
    """Rows that belong to no group have no effect, even if they are NaN or infinite."""
    x, parameter, weights, gradient = tensors(layout)
    expected = reference(x, weights, gradient, ends)
    with torch.no_grad():
        x[ends[-1] :] = float("nan")
    gradient[ends[-1] :] = float("inf")
    for result, exact in zip(run(x, parameter, weights, gradient, ends), expected):
        assert_near(result, exact)


@pytest.mark.parametrize("layout", ["NK", "KN"])
def test_main_gradients(layout):
    """Sums of two microbatches in f32, in place, are close to float64's and have the same bits in
    each run.
    """
    x, parameter, weights, gradient = tensors(layout)
    ends, sums = ENDS["empty"], []
    *_, expected = reference(x, weights, gradient, ends)
    for _ in range(2):
        total = torch.zeros(parameter.shape, device="cuda")
        view = total.transpose(-2, -1) if layout == "NK" else total
        for microbatch in range(2):
            grouped_mm(x, weights, offsets(ends), main_grad=view).backward(gradient)
            assert_near(view, (microbatch + 1) * expected)
        sums.append(total)
    assert torch.equal(*sums) and parameter.grad is None


def test_kept_weights():
    """Cached quantized weights give the bits of weights that each call quantizes."""
    x, parameter, weights, gradient = tensors()
    expected = run(x, parameter, weights, gradient, ENDS["empty"])
    for result, other in zip(run(x, parameter, quantize_weights(weights), gradient, ENDS["empty"]), expected):
        assert torch.equal(result, other)


def test_kept_weights_that_were_written_past_the_version():
    """Nothing synchronizes: the call gives NaN, and the next one raises."""
    x, parameter, weights, _ = tensors()
    kept, ends = quantize_weights(weights), offsets(ENDS["one"])
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        expected = grouped_mm(x, kept, ends)
        parameter.data.mul_(2)
        y = grouped_mm(x, kept, ends)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(expected * 2, grouped_mm(x, weights, ends)) and y.isnan().all()
    torch.cuda.synchronize()
    with pytest.raises(ValueError, match="the weights have changed since they were quantized"):
        grouped_mm(x, kept, ends)
    kept.refresh()
    assert torch.equal(grouped_mm(x, kept, ends), expected * 2)


def test_graphs_of_kept_weights():
    """Graphs read the forms that `refresh` writes, and give NaN before it."""
    x, parameter, weights, _ = tensors("KN")
    kept, ends = quantize_weights(weights.detach()), offsets(ENDS["one"])
    x = x.detach()
    grouped_mm(x, kept, ends)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = grouped_mm(x, kept, ends)
    graph.replay()
    expected = y.clone()
    parameter.data.mul_(2)
    graph.replay()
    assert y.isnan().all()
    kept.refresh()
    graph.replay()
    assert torch.equal(y, expected * 2)


@pytest.mark.parametrize("mode", ["eager", None, "reduce-overhead"])
def test_linear_layers_keep_weights(mode):
    """Results have the bits of a layer that quantizes in each call, after steps, and in a graph
    that quantizes in each replay.
    """
    bf16 = dict(device="cuda", dtype=torch.bfloat16)
    layer, plain = (fp8moe.torch.Linear(512, 768, **bf16, least_rows=1, keep=keep) for keep in ("step", None))
    plain.load_state_dict(layer.state_dict())
    optimizers = [torch.optim.AdamW(each.parameters(), lr=0.1, fused=True) for each in (layer, plain)]
    call = layer if mode == "eager" else torch.compile(layer, mode=mode)
    for _ in range(6):
        x, gradient = torch.randn(256, 512, **bf16), torch.randn(256, 768, **bf16)
        results = []
        for each, function in ((layer, call), (plain, plain)):
            torch.compiler.cudagraph_mark_step_begin()
            each.zero_grad()
            given = x.clone().requires_grad_()
            y = function(given)
            y.backward(gradient)
            results.append([y.detach().clone(), given.grad, each.weight.grad.clone()])
        assert all(map(torch.equal, *results))
        for optimizer in optimizers:
            optimizer.step()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        layer(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            y = layer(x)
        for each in (layer, plain):
            each.weight.data.mul_(2)
        graph.replay()
        assert torch.equal(y, plain(x))


def test_linear_layers_whose_weights_were_written_past_the_version():
    """The call gives NaN, and the next one says what to do. Doing it works."""
    bf16 = dict(device="cuda", dtype=torch.bfloat16)
    layer, x = fp8moe.torch.Linear(512, 768, **bf16, least_rows=1, keep="step"), torch.randn(256, 512, **bf16)
    expected = layer(x)
    layer.weight.data.mul_(2)
    layer.bias.data.mul_(2)
    assert layer(x).isnan().all()
    torch.cuda.synchronize()
    with pytest.raises(ValueError, match="an earlier call computed NaN of stale ones"):
        layer(x)
    torch.autograd.graph.increment_version(layer.weight)
    assert torch.equal(layer(x), expected * 2)


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_compiled_code_reads_forms_of_the_last_step(mode):
    """Compiled code also reads the last step's forms if torch.compile makes CUDA graphs."""
    x, parameter, weights, gradient = tensors()
    ends = offsets(ENDS["empty"])

    def multiply(x, parameter):
        return _kept.multiply_parameter(x, parameter, True, ends, "rowwise", _grouped_mm.GROUPED_MM) * 1

    compiled = torch.compile(multiply, mode=mode)
    optimizer = torch.optim.AdamW([parameter], lr=0.1, fused=True)
    for _ in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        expected = run(x, parameter, weights, gradient, ENDS["empty"])
        y = compiled(x, parameter)
        found = y.detach().clone(), *torch.autograd.grad(y, (x, parameter), gradient)
        assert all(map(torch.equal, found, (*expected[:2], expected[2].transpose(-2, -1))))
        parameter.grad = found[2].clone()
        optimizer.step()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_gradients_in_parts(ends, compiled, monkeypatch):
    """Gradients of large weights, computed by a program for each part, have the bits of one
    program.

    FP8MOE_TEST_ARTIFACTS needs these programs: run `prepare` with programs.LARGE_WEIGHTS = 1.
    """
    x, parameter, weights, gradient = tensors()
    expected = run(x, parameter, weights, gradient, ends)
    monkeypatch.setattr(programs, "LARGE_WEIGHTS", 1)
    monkeypatch.setattr(_grouped_mm, "_is_cached", lambda gradient: False)
    _grouped_mm.forget_operators()
    torch.compiler.reset()
    try:
        found = run(x, parameter, weights, gradient, ends, torch.compile(grouped_mm) if compiled else grouped_mm)
    finally:
        _grouped_mm.forget_operators()
        torch.compiler.reset()
    for result, other in zip(found, expected):
        assert torch.equal(result, other)


def test_gradient_of_down_is_last(monkeypatch):
    """With large weights, gradients under torch.compile are those of eager code, except where
    Inductor rounds less often.

    FP8MOE_TEST_ARTIFACTS as in test_gradients_in_parts, also for K = 48 and N = 64.
    """
    monkeypatch.setattr(programs, "LARGE_WEIGHTS", 1)
    bf16 = dict(device="cuda", dtype=torch.bfloat16)
    gate_up = torch.randn(E, N, K, **bf16).mul_(K**-0.5).transpose(-2, -1).requires_grad_()
    down = torch.randn(E, K, N // 2, **bf16).mul_((N // 2) ** -0.5).transpose(-2, -1).requires_grad_()
    x, gradient, ends = torch.randn(100, K, **bf16).requires_grad_(), torch.randn(100, K, **bf16), offsets([0, 40, 70, 90])
    _grouped_mm.forget_operators()
    torch.compiler.reset()
    try:
        assert _down_last.run_down_last(x, gate_up, down, ends, None, "rowwise") is not None
        results = []
        for function in (experts, torch.compile(experts, fullgraph=True)):
            y = function(x, gate_up, down, ends)
            results.append((y.detach(), *torch.autograd.grad(y, (x, gate_up, down), gradient)))
    finally:
        _grouped_mm.forget_operators()
        torch.compiler.reset()
    for found, expected in zip(results[1], results[0]):
        assert found.stride() == expected.stride()
        assert_near(found, expected, 0.02)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("k", [1, 3])
def test_permutation(k, dtype, monkeypatch):
    """Kernels and torch's operations give the same permutation. Some tokens have experts elsewhere,
    and weights have either type.
    """
    T, D, count = 517, 1064, 5
    x = torch.randn(T, D, device="cuda").bfloat16().requires_grad_()
    weights = torch.rand(T, k, device="cuda", dtype=dtype).requires_grad_()
    chosen = torch.randint(-1, count + 2, (T, k), device="cuda")
    gradient = torch.randn(D, T, device="cuda").bfloat16().t()

    def step(weights):
        rows, routing = permute(x, chosen, count)
        rows = torch.where(torch.arange(len(rows), device="cuda").unsqueeze(1) < routing.offsets[-1], rows, float("nan"))
        y = unpermute(rows, routing, weights)
        return (y, *torch.autograd.grad(y, [x] if weights is None else [x, weights], gradient))

    assert _triton.has_kernels("_permute_kernels")
    for of in (weights, None):
        found = step(of)
        assert all(map(torch.equal, step(of), found))
        with monkeypatch.context() as patch:
            patch.setattr(_permute, "find_kernels", lambda *arguments: None)
            expected = step(of)
        for result, other in zip(found, expected):
            torch.testing.assert_close(result, other)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_permutation_in_graphs(weighted):
    """Graphs have the bits of eager code, by the same kernel, for any number of tokens. Gradients
    may be expanded.
    """
    D, k, count = 520, 3, 5

    def there_and_back(x, chosen, weights):
        rows, routing = permute(x, chosen, count)
        return rows, unpermute(rows.float().relu().bfloat16(), routing, weights)

    compiled = torch.compile(there_and_back, fullgraph=True, dynamic=True)
    for tokens in (517, 0, 33):
        x = torch.randn(tokens, D, device="cuda").bfloat16().requires_grad_()
        weights = torch.rand(tokens, k, device="cuda").requires_grad_() if weighted else None
        chosen = torch.randint(-1, count + 2, (tokens, k), device="cuda")
        leaves = [x, weights] if weighted else [x]
        results = []
        for function in (there_and_back, compiled):
            rows, y = function(x, chosen, weights)
            results.append((rows, y, *torch.autograd.grad(y.sum(), leaves)))
        for found, expected in zip(*results):
            torch.testing.assert_close(found, expected)
        assert torch.equal(results[0][0], results[1][0])


def test_gathering_operator():
    x, slots = torch.randn(40, 24, device="cuda").bfloat16(), torch.randperm(120, device="cuda")
    ends, weights = torch.tensor([30, 30, 90], dtype=torch.int32, device="cuda"), torch.rand(40, 3, device="cuda")
    assert _triton.has_kernels("_permute_kernels")
    for given in ((), (ends,), (ends, weights)):
        torch.library.opcheck(torch.ops.fp8moe.spread.default, (x, slots, 3, *given))


def test_kernels_are_not_tried_on_fake_tensors():
    _triton._load_kernels.cache_clear()
    with torch._subclasses.FakeTensorMode():
        assert _triton.has_kernels("_glu_kernels")
        h = torch.empty(4, 32, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        assert _glu.gate_and_up(h, "silu").shape == (4, 16)


@pytest.mark.parametrize("gate", [SwiGLU(), SwiGLU(0.7, 1.702, 1.0, True), SwiGLU(0.7)], ids=["silu", "gpt-oss", "clamped"])
@pytest.mark.parametrize("rows, width", [(300, 1408), (1, 7), (0, 16), (517, 33)])
@pytest.mark.parametrize("compiled", [False, True], ids=["", "compiled"])
def test_swiglu(rows, width, compiled, gate):
    """Eager code has kernels for SwiGLU and its gradient, compiled code only one for the gradient."""
    assert _triton.has_kernels("_glu_kernels")
    h = torch.randn(rows, 2 * width, device="cuda").bfloat16().requires_grad_()
    gradient = torch.randn(width, rows, device="cuda").bfloat16().t()
    function = torch.compile(gate.__call__, fullgraph=True) if compiled else gate
    a = function(h)
    exact = h.detach().double().requires_grad_()
    expected = gate.compute(exact)
    torch.testing.assert_close(a.double(), expected, rtol=2**-7, atol=1e-6)
    (found,) = torch.autograd.grad(a, h, gradient)
    torch.testing.assert_close(found.double(), *torch.autograd.grad(expected, exact, gradient.double()), rtol=2**-7, atol=1e-6)
    if rows:
        arguments = gate._replace(limit=gate.limit or 0.0)
        torch.library.opcheck(torch.ops.fp8moe.swiglu_backward.default, (gradient.contiguous(), h.detach(), *arguments))


@pytest.mark.parametrize("name", ["Qwen3Moe", "GptOss"])
def test_experts_of_transformers_take_kernels_for_their_gate(name):
    """Results are close to the module's own gate, which rounds between operations."""
    transformers = pytest.importorskip("transformers")
    fp8moe.torch.transformers.register()
    sizes = dict(vocab_size=64, hidden_size=64, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=16)
    experts = dict(num_experts=4, moe_intermediate_size=48) if name == "Qwen3Moe" else dict(num_local_experts=4, intermediate_size=48)
    config = getattr(transformers, f"{name}Config")(**sizes, **experts, num_experts_per_tok=2)
    model = transformers.AutoModelForCausalLM.from_config(config, experts_implementation="fp8moe").bfloat16().cuda()
    (module,) = (module for module in model.modules() if hasattr(module, "_apply_gate"))
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x = torch.randn(40, 64, device="cuda").bfloat16().requires_grad_()
    index, weights = torch.randint(4, (40, 2), device="cuda"), torch.rand(40, 2, device="cuda").bfloat16()
    results = []
    for finds in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not finds:
                patch.setattr(fp8moe.torch.transformers, "find_gate", lambda module: None)
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                y = module(x, index, weights)
                results.append([y.detach(), *torch.autograd.grad(y, (x, *module.parameters()), torch.ones_like(y))])
        names = {event.key for event in profile.key_averages()}
        assert ({"_forward_kernel", "_backward_kernel"} <= names) == finds, names
    for found, expected in zip(*results):
        assert_near(found, expected, 0.05)


def test_profiles_show_the_kernels_that_run_without_them():
    x = torch.randn(64, 256, device="cuda").bfloat16().requires_grad_()
    weights = torch.rand(64, 2, device="cuda")

    def step():
        rows, routing = permute(x, torch.randint(4, (64, 2), device="cuda"), 4)
        unpermute(_glu.gate_and_up(rows, "silu").repeat(1, 2), routing, weights).sum().backward()

    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
    names = {event.key for event in profile.key_averages()}
    assert {"_sum_kernel", "_spread_kernel", "_forward_kernel", "_backward_kernel"} <= names


def test_nothing_waits_for_the_device():
    x, parameter, weights, gradient = tensors()
    ends = offsets(ENDS["empty"])
    grouped_mm(x, weights, ends)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.autograd.grad(grouped_mm(x, weights, ends), (x, parameter), gradient)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_stream_of_the_caller():
    x, parameter, weights, gradient = tensors()
    expected = run(x, parameter, weights, gradient, ENDS["empty"])
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        later = x.detach().mul(1.0).requires_grad_()
        found = run(later, parameter, weights, gradient, ENDS["empty"])
    stream.synchronize()
    for result, other in zip(found, expected):
        assert torch.equal(result, other)


def test_several_streams():
    """Cached and new calls of one layout run in concurrent streams."""
    cases = [tensors() for _ in range(3)]
    expected = [run(*case, ENDS["empty"]) for case in cases]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in cases]
    found = []
    for _ in range(3):
        for case, stream in zip(cases, streams):
            with torch.cuda.stream(stream):
                found.append(run(*case, ENDS["empty"]))
    torch.cuda.synchronize()
    for results, others in zip(found, expected * 3):
        assert all(map(torch.equal, results, others))


def test_graph_replays_with_other_groups():
    # No older graph may be alive, as autograd would use the stream that it was made on.
    x, parameter, _, gradient = tensors("KN")
    ends = offsets(ENDS["even"])

    def step():
        y = grouped_mm(x, parameter, ends)
        return (y.detach(), *torch.autograd.grad(y, (x, parameter), gradient))

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    for kind in ("even", "empty", "none"):
        ends.copy_(offsets(ENDS[kind]))
        for result in found:
            result.fill_(float("nan"))
        graph.replay()
        for result, other in zip(found, run(x, parameter, parameter, gradient, ENDS[kind])):
            assert torch.equal(result, other), kind


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_experts(compiled):
    D, H, ends = 64, 48, ENDS["empty"]
    bf16 = dict(device="cuda", dtype=torch.bfloat16)
    x, gradient = torch.randn(M, D, **bf16).requires_grad_(), torch.randn(M, D, **bf16)
    gate_up = (torch.randn(E, 2 * H, D, **bf16) * D**-0.5).requires_grad_()
    down = (torch.randn(E, D, H, **bf16) * H**-0.5).requires_grad_()
    function = torch.compile(experts, fullgraph=True) if compiled else experts
    y = function(x, gate_up.transpose(-2, -1), down.transpose(-2, -1), offsets(ends))
    found = (y, *torch.autograd.grad(y, (x, gate_up, down), gradient))

    inputs = [tensor.detach().double().requires_grad_() for tensor in (x, gate_up, down)]
    rows = []
    for g, (begin, end) in enumerate(zip([0, *ends], ends)):
        gate, up = (inputs[0][begin:end] @ inputs[1][g].T).chunk(2, dim=-1)
        rows.append((ACTIVATIONS["silu"](gate) * up) @ inputs[2][g].T)
    exact = torch.cat([*rows, torch.zeros(M - ends[-1], D, device="cuda", dtype=torch.float64)])
    expected = (exact, *torch.autograd.grad(exact, inputs, gradient.double()))
    for result, other in zip(found, expected):
        assert_near(result, other, tolerance=2 * TOLERANCE)


def layer_of(kept, recipe="rowwise", tokens=640, D=256, H=128):
    """Returns forward and backward of a whole layer: a function of `moe`, or of its reference, that
    returns y and the gradients.
    """
    generator = torch.Generator("cuda").manual_seed(2)

    def randn(*shape):
        return torch.randn(*shape, device="cuda", generator=generator)

    weights, chosen = randn(tokens, E).softmax(-1).topk(2)
    chosen[::7, 1] = E  # of another rank
    x, gradient = randn(tokens, D).bfloat16(), randn(tokens, D).bfloat16()
    leaves = [x, weights, randn(E, 2 * H, D).bfloat16() * D**-0.5, randn(E, D, H).bfloat16() * H**-0.5]
    for leaf in leaves:
        leaf.requires_grad_()
    forms = [quantize_weights(leaf.transpose(-2, -1)) for leaf in leaves[2:]] if kept else None

    def step(recipe):
        matrices = forms if forms and recipe == "rowwise" else [leaf.transpose(-2, -1) for leaf in leaves[2:]]
        y = fp8moe.torch.moe(x, chosen, weights, *matrices, recipe=recipe)
        return (y.detach(), *torch.autograd.grad(y, leaves, gradient))

    return step, leaves


def distance(found, expected):
    return ((found.double() - expected.double()).norm() / expected.double().norm()).item()


@pytest.mark.parametrize("kept", [False, True], ids=["", "kept"])
@pytest.mark.parametrize("compiled", [False, True], ids=["", "compiled"])
def test_whole_layers(kept, compiled, whole_layers):
    step, _ = layer_of(kept)
    found = (torch.compile(step) if compiled else step)("rowwise")
    assert whole_layers
    for a, b in zip(found, step("bf16")):
        assert distance(a, b) < 0.09  # two roundings in each of two matmuls


def test_whole_layers_in_a_graph():
    step, leaves = layer_of(kept=False)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step("rowwise")
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step("rowwise")
    with torch.no_grad():
        for leaf in leaves:
            leaf.mul_(1.5)
    graph.replay()
    for a, b in zip(found, step("rowwise")):
        assert torch.equal(a, b)


@pytest.mark.parametrize("compiled", [False, True], ids=["", "compiled"])
@pytest.mark.parametrize("tokens", [0, 300])
def test_whole_layers_of_tokens_that_arrived(tokens, compiled):
    """Tokens arrive as from expert_parallel: rows of other ranks' experts are skipped, and there
    may be no tokens.
    """
    from fp8moe.torch import _moe, _permute

    _, (x, weights, gate_up, down) = layer_of(kept=False)
    x, weights = (tensor.detach()[:tokens].requires_grad_() for tensor in (x, weights))
    chosen = torch.randint(-1, E + 1, weights.shape, device="cuda")
    routing = _permute.route(chosen, E)
    arrived = routing._replace(slots=routing.slots[: int(routing.offsets[-1])].clone())
    results = []
    for each in (routing, arrived):
        run = torch.compile(_moe.run_routed, dynamic=True) if compiled else _moe.run_routed
        y = run(x, each, weights, gate_up.transpose(-2, -1), down.transpose(-2, -1))
        gradient = torch.sin(torch.arange(y.numel(), device="cuda")).view(y.shape).bfloat16()
        results.append((y, *torch.autograd.grad(y, (x, weights, gate_up, down), gradient)))
    assert all(torch.equal(a, b) for a, b in zip(*results)), [distance(a, b) for a, b in zip(*results)]
    assert results[0][3].isfinite().all() and bool(results[0][3].any()) == bool(tokens)


def test_gradients_of_weights_of_rows():
    gradient, h = torch.randn(300, 48, device="cuda").bfloat16(), torch.randn(300, 96, device="cuda").bfloat16()
    torch.library.opcheck(torch.ops.fp8moe.weighted_swiglu_backward.default, (gradient, h, torch.rand(300, device="cuda")))
