"""The ruler of powerctx: evidence delivered within a budget, control against treatment, with intervals.

The program is ``powerctx eval``; :func:`powerctx_eval.run.run` is the same from Python.  Nothing heavy is imported
here.
"""
