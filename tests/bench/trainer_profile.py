# SPDX-License-Identifier: BSD-3-Clause
"""Where the milliseconds of a training step go, by perf's samples of one rank: each symbol belongs to the first kind of
work whose pattern it matches."""
import collections
import re
import subprocess

KINDS = [
    ("attention", "flash_attention|_exp_reduce|_mul_reduce|_scale_attn|sdp"),
    ("matrix products", r"gemm|\[JIT\]|brgemm|dnnl|ideep|mkldnn"),
    ("optimizer, clipping", "adam|squared_norm|norm_kernel|NormOps|foreach"),
    ("norms, rotation, SwiGLU, loss", "rms_norm|rotate|swiglu|cross_entropy|expf|softmax|silu|rsqrt|pow_|nll_loss|cos|sin"),
    ("collectives, gather and scatter", "sum_parts|gloo|copy_to_iter|copy_from_iter|tcp_|skb|sock|epoll|split_with_sizes|"
                                        "cat_serial|chunk_cat|recv|send"),
    ("page faults, memory", "malloc|_int_free|cfree|consolidate|page|fault|clear_|memcg|folio|madvise|mmap|munmap"),
    ("Python, dispatch, autograd", r"python|^_?Py|PyObject|dispatch|Dispatch|autograd|Variable|pybind"),
    ("copies, sums, other element-wise", "VectorizedLoop2d|copy_kernel|memmove|memset|memcpy|add_kernel|mul_kernel|outer_sum|"
                                         "direct_copy|fill|cast"),
]


def record(pid, file):
    """Samples the process's CPU time until it ends or perf is interrupted; None where there is no perf."""
    try:
        return subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "-p", str(pid), "-o", file],
                                stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        return None


def shares(file):
    """kind -> part of the samples."""
    report = subprocess.run(["perf", "report", "-i", file, "--no-children", "--stdio", "-F", "overhead,dso,symbol"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    parts = collections.Counter()
    for line in report.splitlines():
        found = re.match(r"\s*([\d.]+)%\s+(.*)", line)
        if found:
            kind = next((kind for kind, pattern in KINDS if re.search(pattern, found[2])), "rest")
            parts[kind] += float(found[1]) / 100
    return parts


def rows(columns):
    """A table's rows of milliseconds a step. columns: name -> (perf's file, CPU seconds a step of that rank)."""
    by_kind = {name: {kind: part * seconds * 1e3 for kind, part in shares(file).items()}
               for name, (file, seconds) in columns.items()}
    kinds = [kind for kind, _ in KINDS] + ["rest"]
    return [("ms of CPU a step", *columns)] + [
        (kind, *(f"{by_kind[name].get(kind, 0):.1f}" for name in columns)) for kind in kinds] + [
        ("all", *(f"{seconds * 1e3:.1f}" for _, seconds in columns.values()))]
