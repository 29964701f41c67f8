"""Only for regroup.pth, which has to lie beside the package; all else is in pyproject.toml."""

from setuptools import setup
from setuptools.command.build_py import build_py


class BesideThePackage(build_py):
    def run(self):
        super().run()
        self.copy_file("regroup.pth", self.build_lib)


setup(cmdclass={"build_py": BesideThePackage})
