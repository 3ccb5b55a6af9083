"""The CPU backend: MuJoCo's physics on a pool of C++ threads, by ``mjbatch``."""
