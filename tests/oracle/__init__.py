"""What DeepSpeed itself does with a config: the authority dslint is measured against.

See README.md in this directory. Nothing here imports dslint, and only the worker functions
import torch or deepspeed.
"""
