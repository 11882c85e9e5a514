"""This compiler is right: the kernels that filters are made of agree with numpy in every row."""

import jax
import pytest

from paramfilter import compiler_canary


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", compiler_canary.KERNELS, ids=lambda kernel: kernel.__name__)
def test_compiled_kernel_agrees_with_numpy_in_every_row(kernel, dtype):
    wrong = list(compiler_canary.wrong_rows(kernel, dtype))
    assert not wrong, f"JAX {jax.__version__} compiles {kernel.__name__} wrongly: " + "; ".join(wrong)


def test_a_kernel_that_is_wrong_is_noticed(monkeypatch):
    monkeypatch.setitem(
        compiler_canary.KERNELS, compiler_canary.squared_norm, lambda a, xs: ((xs @ a.T) ** 2).sum(axis=1) * 1.001
    )
    wrong = list(compiler_canary.wrong_rows(compiler_canary.squared_norm, "float32", dimensions=[3]))
    assert wrong[0].startswith("3 dimensions, 1000 rows: wrong from row")
