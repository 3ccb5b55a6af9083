"""The Go2 itself: its table of facts, MuJoCo models, physics variants, mirror symmetry and looks."""
