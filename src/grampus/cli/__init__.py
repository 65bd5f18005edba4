"""The command line: one module per noun, output writers, composition root."""
