"""The compiled kernels; everything else about the build is in pyproject.toml.

Each extension is optional: without a C compiler the build goes on and the plain twins serve instead.
"""

from __future__ import annotations

import os

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

KERNELS = ("arrow", "batches", "framed", "frames", "json", "responses", "walk")


class BuildKernels(build_ext):
    """Builds what can be built, on all cores."""

    def finalize_options(self) -> None:
        """Take as many cores as there are, unless told otherwise."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extension(self, ext: Extension) -> None:
        """Build one, and let a compiler that cannot be started count as one that failed."""
        try:
            super().build_extension(ext)
        except OSError as error:
            raise CompileError(str(error)) from error


kernels = cythonize(
    [
        Extension(
            f"kavka.kernels._{name}",
            [f"src/kavka/kernels/_{name}.py"],
            include_dirs=["src/kavka/kernels"],
            depends=["src/kavka/kernels/_native.h", "src/kavka/kernels/_native.pxd"],
        )
        for name in KERNELS
    ],
    build_dir="build/cython",
    include_path=["src"],
    compiler_directives={
        "language_level": 3,
        "boundscheck": False,  # the sources check every bound themselves, once, and say so in the protocol's words
        "wraparound": False,
        "cdivision": True,
        "embedsignature": True,
    },
    show_all_warnings=True,
)
for kernel in kernels:
    kernel.optional = True  # cythonize forgets it

setup(ext_modules=kernels, cmdclass={"build_ext": BuildKernels})
