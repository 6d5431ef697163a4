"""Record batches as bytes: checked, patched, built and read, without any I/O."""
