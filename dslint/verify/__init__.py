"""`dslint --verify`: one real training step, and what it says about the static verdict.

arguments.py declares the flags and command.py carries them out: fill.py turns the file into what the
worker trains with, launch.py starts the processes (torch's elastic launcher, DeepSpeed's for several
nodes, or none inside a job that already has ranks), watches them and leaves nothing behind, diagnose.py
puts a failure into words, compare.py holds the measurements against what was predicted and promised, and
text.py prints them. Only worker.py and what it alone imports (network.py, meter.py, traffic.py) know
torch and DeepSpeed, and they run in the worker's process.
"""
