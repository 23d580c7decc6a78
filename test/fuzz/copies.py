# ===- copies.py - The least number of copies of a small program -----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Finds by brute force the least number of copies that a small straight-line program needs.

The search knows no expressions, layouts or costs. Every tensor that a kernel writes, or that is an
argument, is a *root* with an array of numbers, one per element. Views and copies move numbers as
they move elements; -1 is a known zero.

The *image* of a tensor is the sequence of its numbers in memory. Two tensors of a root have the
same bytes if their images are equal.

Rules:

* An argument has the image of its type.
* A kernel can write its result in any order of dimensions. Jagged data may also be padded, and
  block scales blocked.
* A result of the function needs the image of its type. A kernel accepts every order of its
  operand's dimensions.
* A copy changes the order of a tensor, pads or packs it, or blocks its scales or back.

The search tries every image that a root can be written as. For each, it tries every set of copies
that reaches all needed images, with none, one, two, ... copies. A kernel that reads experts merged
into one dimension may read them separately; its block scales then have another layout.

A quantization whose results exist already may be omitted, which may need a copy. Predicted times
decide that, which this search does not know. It is told how many results are left, and tries every
choice that leaves that many.
"""

import itertools
import re

import numpy as np
import programs

# Group ends. Some rows belong to no group. Ends are cut where a tensor has fewer rows.
ENDS = (1, 1, 2)
MX_BLOCK = 32
# Upper bound of copies beyond those that produce needed images.
MOST_STEPS = 4
# Targets with a matmul kernel, which restricts bf16 operands like FP8 ones and writes row-major
# results. Other GPUs only have the restriction of all tensor cores: FP8 with the contracted
# dimension innermost.
WITH_MATMUL = ("sm_90a", "gfx942", "gfx950")
# Operations that are omitted if their results exist already.
MERGED = ("scale", "jagged_scale", "quantize", "dequantize", "dynamic_quantize", "jagged_dynamic_quantize",
          "mx_quantize", "mx_dequantize")


def key(image):
    return np.ascontiguousarray(image).tobytes()


def orders(array):
    """Returns the images of a tensor in every order of its dimensions."""
    return {key(array.transpose(p).ravel()) for p in itertools.permutations(range(array.ndim))}


def innermost(array, dim):
    """Returns the images of the array with `dim` innermost."""
    rest = [d for d in range(array.ndim) if d != dim]
    return {key(array.transpose([*p, dim]).ravel()) for p in itertools.permutations(rest)}


def tiles(array):
    """Returns the image in tiles of 128 rows and 4 columns. -2 distinguishes it from all other
    images.
    """
    matrices = array.reshape(-1, *array.shape[-2:])
    rows, columns = (-(-array.shape[-2] // 128) * 128, -(-array.shape[-1] // 4) * 4)
    padded = np.full((len(matrices), rows, columns), -1)
    padded[:, : array.shape[-2], : array.shape[-1]] = matrices
    split = padded.reshape(len(matrices), rows // 128, 4, 32, columns // 4, 4)
    return key(np.append(split.transpose(0, 1, 4, 3, 2, 5).ravel(), -2))


def image(value, array):
    """Returns the image of a tensor in the layout of its type."""
    return tiles(array) if value.type.is_blocked else key(array.transpose(value.type.order).ravel())


def groups(rows):
    begin = 0
    for end in ENDS:
        end = max(begin, min(end, rows))
        yield begin, end
        begin = end


def pad(array, dim, multiple):
    packed = np.moveaxis(array, dim, 0)
    result = np.full((programs.padded_extent(len(packed), multiple), *packed.shape[1:]), -1)
    start = 0
    for begin, end in groups(len(packed)):
        result[start : start + end - begin] = packed[begin:end]
        start += -(-(end - begin) // multiple) * multiple
    return np.moveaxis(result, 0, dim)


def pack(array, dim, multiple, rows):
    padded = np.moveaxis(array, dim, 0)
    result = np.full((rows, *padded.shape[1:]), -1)
    start = 0
    for begin, end in groups(rows):
        result[begin:end] = padded[start : start + end - begin]
        start += -(-(end - begin) // multiple) * multiple
    return np.moveaxis(result, 0, dim)


class Root:
    def __init__(self, writable):
        self.writable = writable  # for each way to run its kernel, the images that it can write
        self.kernel = None  # number of the kernel
        self.arrays = []
        self.regroupings = {}  # functions of arrays, by name
        self.wanted = []  # for each reader, a function from ways of kernels to the images that it accepts

    def add(self, array):
        self.arrays.append(array)
        return self, array

    def steps(self):
        """Returns, for each image, those that one copy of it can make, and one image of each
        tensor.
        """
        arrays = {(a.shape, key(a.ravel())): a for a in self.arrays}
        reach = {}
        for array in arrays.values():
            from_here = orders(array)
            to = set(from_here)
            for shape, regroup in self.regroupings.values():
                if array.shape == shape:
                    to |= orders(regroup(array))
            if array.ndim in (2, 3):
                to.add(tiles(array))
                reach.setdefault(tiles(array), set()).update(from_here)
            for each in from_here:
                reach.setdefault(each, set()).update(to)
        # The order of an intermediate tensor does not matter, so one image stands for all.
        images = {min(orders(array)) for array in arrays.values()}
        return reach, images | {tiles(array) for array in arrays.values() if array.ndim in (2, 3)}

    def least(self, ways):
        """Returns the least number of copies if kernels run in these ways."""
        wanted = [takes(ways) for takes in self.wanted]
        reach, images = self.steps()
        writable = self.writable[ways.get(self.kernel, 0)]
        images = images.union(*wanted)
        return min(self.least_from(written, wanted, reach, images) for written in writable)

    @staticmethod
    def least_from(written, wanted, reach, images):
        needed = {next(iter(w)) for w in wanted if len(w) == 1} - {written}
        for extra in range(MOST_STEPS + 1):
            for more in itertools.combinations(images - needed - {written}, extra) if extra else [()]:
                copies = needed | set(more)
                there = copies | {written}
                if not all(there & w for w in wanted):
                    continue
                made, begin = {written}, {written}
                while begin:
                    begin = {j for i in begin for j in reach.get(i, ()) if j in copies} - made
                    made |= begin
                if made == there:
                    return len(copies)
        return 1000


class Program:
    """The roots of a drawn function, and the ways in which its kernels can run."""

    def __init__(self, function, target, spared=None):
        self.target, self.roots, self.values = target, [], {}
        # Operations that are omitted, with the choice of the earlier operation that replaces each
        # result.
        self.spared = spared or {}
        self.spareable = {}  # number of replaceable results of each operation
        self.computed = {}  # operands and results of earlier operations, by what they compute
        self.ways = {}  # number of ways of each kernel
        for value in function.arguments:
            array = np.arange(np.prod(value.type.sizes)).reshape(value.type.sizes)
            self.define(value, array, [{image(value, array)}])
        live = self.find_live(function)
        self.num_results = sum(len(op[2]) for op in live if op[0] in MERGED)
        for number, op in enumerate(live):
            if op[0] in ("transpose", "reshape", "contiguous", "relayout"):
                self.view(*op)
            elif not self.spare(number, *op):
                self.kernel(*op)
        for value in function.returned:
            root, array = self.values[value.name]
            root.wanted.append(lambda ways, only={image(value, array)}: only)

    def find_live(self, function):
        """Returns the operations whose results are used."""
        read = {value.name for value in function.returned}
        live = []
        for op in reversed(function.ops):
            if any(result.name in read for result in op[2]):
                read |= {operand.name for operand in op[1]}
                live.append(self.drop_axis(read, *op))
        return live[::-1]

    def drop_axis(self, read, op, operands, results, detail):
        """Returns a quantization along two axes without an unused one. On the CPU it stays one
        operation.
        """
        if self.target == "cpu" or op not in ("dynamic_quantize", "jagged_dynamic_quantize") or len(results) != 4:
            return op, operands, results, detail
        kept = [i for i in (0, 1) if results[i].name in read or results[i + 2].name in read]
        if len(kept) == 2:
            return op, operands, results, detail
        axes = re.search(r"along \[(\d+), (\d+)\]", detail)
        detail = detail.replace(axes[0], f"along [{axes[kept[0] + 1]}]")
        if kept == [1]:  # only the first axis is jagged
            op, operands, detail = "dynamic_quantize", operands[:1], re.sub(r" groups\([^)]*\)", "", detail)
        return op, operands, [results[kept[0]], results[kept[0] + 2]], detail

    def define(self, value, array, writable):
        root = Root(writable)
        self.roots.append(root)
        self.values[value.name] = root.add(array)
        return root

    def view(self, op, operands, results, detail):
        source, result = operands[0].type, results[0].type
        root, array = self.values[operands[0].name]
        if op == "transpose":
            array = array.transpose([int(d) for d in re.findall(r"\d+", detail)])
        elif op == "reshape":
            array = array.reshape(result.sizes)
        elif "groups" in detail and result.pad:
            dim, multiple, rows = result.pad_dim, result.pad, source.sizes[result.pad_dim]
            array = self.regroup(root, array, (dim, multiple), lambda a: pad(a, dim, multiple))
            # The inverse regrouping exists, whether the program uses it or not.
            self.regroup(root, array, (dim, multiple, rows), lambda a: pack(a, dim, multiple, rows))
        elif "groups" in detail:
            dim, multiple, rows = source.pad_dim, source.pad, result.sizes[source.pad_dim]
            array = self.regroup(root, array, (dim, multiple, rows), lambda a: pack(a, dim, multiple, rows))
        self.values[results[0].name] = root.add(array)

    @staticmethod
    def regroup(root, array, name, function):
        """Records a regrouping and the shape before it, also for the transposed tensor."""
        root.regroupings[(array.shape, name)] = (array.shape, function)
        if array.ndim == 2:
            root.regroupings[(array.shape[::-1], "t", name)] = (array.shape[::-1], lambda a: function(a.T).T)
        return function(array)

    # Equal kernels.

    def name_results(self, op, operands, results, detail):
        """Yields each result with names of its computation. Several names may describe the same."""
        root, array = self.values[operands[0].name]
        axes = [int(a) for a in re.findall(r"\d+", re.search(r"along (\[[\d, ]+\]|\d+)", detail)[1])]
        rounding = (re.findall(r"(?:rounding|mode) (\w+)", detail) or [""])[0]
        ends, square = tuple(re.findall(r"groups\((%\w+)", detail)), "square" in detail
        for i, axis in enumerate(axes):
            # The slice through the first element identifies the axis, however the tensor is viewed.
            line = tuple(array[tuple(slice(None) if d == axis else 0 for d in range(array.ndim))])
            where = (id(root), tuple(sorted(array.shape)), line, ends if i == 0 or op == "mx_quantize" else ())
            data = results[i]
            if op in ("scale", "jagged_scale"):
                yield data, [("scale", where, rounding, detail.split()[-1])]
            elif op in ("quantize", "dequantize", "mx_dequantize"):
                yield data, [(op, where, id(self.values[operands[1].name][0]), data.type.element)]
            elif op == "mx_quantize":
                yield data, [("mx data", where, rounding, square)]
                yield results[i + len(axes)], [("mx scales", where, rounding, square)]
            else:
                scales, name = results[i + len(axes)], ("scale", where, rounding, data.type.element)
                yield scales, [name]
                # A cast by its own scales, or by scales that an earlier operation computed.
                known = [r for r in (scales, *(r for _, r in self.computed.get(name, ()))) if r.name in self.values]
                yield data, [("data", *name), *(("quantize", where, id(self.values[r.name][0]), data.type.element)
                                                for r in known)]

    def spare(self, number, op, operands, results, detail):
        """Takes the results of earlier operations if told so, else runs the operation. Returns
        false for views and matmuls.
        """
        if op not in MERGED:
            return False
        array, known = self.values[operands[0].name][1], {}
        axis = int(re.search(r"along \[?(\d+)", detail)[1])
        for result, names in self.name_results(op, operands, results, detail):
            for before, first in (each for name in names for each in self.computed.get(name, ())):
                permutation = next((p for p in itertools.permutations(range(array.ndim))
                                    if before.shape == array.transpose(np.argsort(p)).shape
                                    and np.array_equal(before.transpose(p), array)), None)
                # Scales in another order would need a copy.
                if permutation and self.keeps_scales(permutation, permutation[axis]):
                    known.setdefault(result.name, {})[first.name] = permutation
        if all(r.name in known for r in results):
            self.spareable[number] = len(results)
            if number in self.spared:
                for index, result in enumerate(results):
                    found = list(known[result.name].items())
                    # Each bit chooses the source of a result.
                    first, permutation = found[min(self.spared[number] >> index & 1, len(found) - 1)]
                    root, own = self.values[first]
                    is_data = result.type.element in (programs.FP8, programs.BF16) or op == "dequantize"
                    self.values[result.name] = root.add(own.transpose(permutation) if is_data else own)
                return True
        self.kernel(op, operands, results, detail)
        for result, names in self.name_results(op, operands, results, detail):
            for name in names:
                self.computed.setdefault(name, []).append((array, result))
        return True

    @staticmethod
    def keeps_scales(permutation, axis):
        rest = [d for d in permutation if d != axis]
        return rest == sorted(rest)

    # Kernels.

    def kernel(self, op, operands, results, detail):
        number = len(self.ways)
        axis = int(re.search(r"along \[?(\d+)", detail)[1]) if "along" in detail else None
        root, array = self.values[operands[0].name]
        split = self.find_split(op, root, array, axis, detail)
        self.ways[number] = 1 if split is None else 2
        for index, value in enumerate(operands):
            self.read(op, number, index, value, split if index == 0 else None)
        for index, value in enumerate(results):
            self.write(op, number, index, value, axis, detail, split)

    def find_split(self, op, root, array, axis, detail):
        """Returns the experts that `array` merges, if the kernel can read them separately."""
        if op not in ("scale", "quantize", "dequantize", "dynamic_quantize", "mx_quantize") or "groups" in detail:
            return None
        if array.ndim != 2 or "," in detail.split("rounding")[0]:
            return None
        for finer in root.arrays:
            if finer.ndim != 3 or not np.array_equal(finer.reshape(-1), array.reshape(-1)):
                continue
            merged = 0 if finer.shape[2] == array.shape[1] else 1
            if finer.shape[merged] * finer.shape[merged + 1] != array.shape[merged]:
                continue
            if axis != merged or (op == "mx_quantize" and finer.shape[merged + 1] % MX_BLOCK == 0):
                return finer, merged
        return None

    def read(self, op, number, index, value, split):
        root, array = self.values[value.name]
        if value.type.element in (programs.F32, programs.E8M0) and index > 0:
            takes = [{image(value, array)}]
        elif op == "linear" and self.target in WITH_MATMUL:
            # Kernels read bf16 operands K-major or MN-major.
            takes = [orders(array)]
        elif op == "grouped_matmul" and (self.target in WITH_MATMUL or (
                self.target != "cpu" and value.type.element == programs.FP8)):
            takes = [innermost(array, 1)]
        else:
            takes = [orders(array)]
        if split:
            takes.append(takes[0] | orders(split[0]))
        root.wanted.append(lambda ways: takes[ways[number] if len(takes) > 1 else 0])

    def write(self, op, number, index, value, axis, detail, split):
        array = np.arange(np.prod(value.type.sizes)).reshape(value.type.sizes)
        is_data = value.type.element in (programs.FP8, programs.BF16) or op == "dequantize"
        if is_data and ("groups" in detail or op == "grouped_matmul"):
            # Rows that belong to no group are zero.
            rows = np.moveaxis(array, 0 if op in ("mx_quantize", "grouped_matmul") else axis, 0)
            rows[groups_end(len(rows)):] = -1
        finer = None
        if op == "grouped_matmul" and self.target in WITH_MATMUL:
            writable = {key(array.ravel())}
        elif is_data:
            # A dense matmul writes column-major results by exchanging its operands.
            writable = orders(array)
            if op in ("jagged_dynamic_quantize", "quantize") and "groups" in detail:
                for multiple in programs.PADS:
                    writable |= orders(pad(array, axis, multiple))
        elif op == "mx_quantize" and "groups" in detail:
            writable = {tiles(array)}
        elif op == "mx_quantize":
            writable = {key(array.ravel()), tiles(array)}
        else:
            writable = {key(array.ravel())}
        ways = [writable]
        if split:
            source, merged = split
            if is_data:
                finer = array.reshape(source.shape)
                ways.append(orders(finer))
            elif op == "mx_quantize" and axis == merged:
                outer, inner = source.shape[merged], source.shape[merged + 1]
                finer = array.reshape(array.shape[0], outer, inner // MX_BLOCK)
                finer = finer.transpose(1, 0, 2) if merged == 0 else finer.transpose(0, 1, 2)
                ways.append({key(finer.ravel())})
            else:
                ways.append({key(array.ravel())})
        root = self.define(value, array, ways)
        root.kernel = number if split else None
        if finer is not None:
            root.arrays.append(finer)

    def least(self):
        numbers = [n for n, ways in self.ways.items() if ways > 1]
        return min(
            sum(root.least({**dict.fromkeys(self.ways, 0), **dict(zip(numbers, chosen))}) for root in self.roots)
            for chosen in itertools.product((0, 1), repeat=len(numbers)))


def groups_end(rows):
    return max(end for _, end in groups(rows))


def least_copies(function, target, num_results):
    """Returns the least number of copies if quantizations compute this many results."""
    program = Program(function, target)
    wanted = program.num_results - num_results
    least = [program.least()] if wanted == 0 else []
    if wanted:
        # Omitting an operation may make a later one equal to an earlier one.
        everything = dict.fromkeys(range(len(function.ops)), 0)
        counts = Program(function, target, everything).spareable
        for sources in itertools.product(*((None, *range(2**count)) for count in counts.values())):
            spared = {number: source for number, source in zip(counts, sources) if source is not None}
            if sum(counts[number] for number in spared) != wanted:
                continue
            chosen = Program(function, target, spared)
            if all(number in chosen.spareable for number in spared):
                least.append(chosen.least())
    return min(least, default=None)
