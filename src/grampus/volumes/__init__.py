"""Volumes: RBD images with a file system, attached to hosts.

- `VolumeService` (`service.py`) is what others use. `VolumeSpec` and `VolumeRecord` (`model.py`)
  are what is known of a volume; `parts.py` builds the parts that do the work.
- `drivers/` turns an image into a block device; `decide_driver.py` chooses one.
- `kinds.py` has the kinds of operations, `operations.py` their locks and recovery.
- `write_paths.py`, `journals.py` and `local_logs.py` know what is durable where; `fencing.py`
  takes a volume from a host for certain.

Failure and recovery: an attachment that died is cleared away and its exact client is fenced
before the image is opened again. Creations and clones that were interrupted are undone,
everything else is finished; a migration may wait for whoever asks for it. Ctrl-C is safe in each
step.
"""
