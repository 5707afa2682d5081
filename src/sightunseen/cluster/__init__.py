"""Work on many machines by Ray: connection, tasks, streams of batches, and the commands that use them."""
