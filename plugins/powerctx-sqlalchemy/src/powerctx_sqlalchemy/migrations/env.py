"""Alembic's entry: runs the migrations on the connection, and in the transaction, of the caller."""

from alembic import context

from powerctx_sqlalchemy.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=False)
context.run_migrations()
