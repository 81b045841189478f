"""A store of powerctx in OceanBase: a server or cluster, or the engine embedded beside the process."""
