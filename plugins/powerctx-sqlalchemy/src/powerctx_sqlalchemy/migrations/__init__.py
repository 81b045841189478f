"""Migrations of the schema, run by alembic."""
