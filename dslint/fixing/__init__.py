"""Fixes: edits that mend a finding, made of spans so that everything else in the file stays as it is.

`changes` says what a fix means, `json_edits` and `yaml_edits` where that stands in the text, `build` puts
them together and keeps only what reads back as meant; `loop` applies fixes until none is left, `writing`
replaces files. Nothing here is imported for a file without a finding that has a fix.
"""
