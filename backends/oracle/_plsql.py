"""The texts of PL/SQL that the set-up runs. Names put into them are checked names."""

from __future__ import annotations

from agentmem.backends.oracle._names import SESSION_PACKAGE, UPKEEP_PACKAGE

POLICY_FUNCTION = "mem_tenant_policy"
_NO_TENANT = -20001


def session_package(context: str) -> tuple[str, str]:
    """Return specification and body of the package that holds the tenant of a session."""
    specification = f"""CREATE OR REPLACE PACKAGE {SESSION_PACKAGE} AS
  PROCEDURE set_tenant (p_tenant IN VARCHAR2);
  PROCEDURE clear_tenant;
END {SESSION_PACKAGE};"""
    name = context.upper()
    body = f"""CREATE OR REPLACE PACKAGE BODY {SESSION_PACKAGE} AS
  PROCEDURE set_tenant (p_tenant IN VARCHAR2) IS
  BEGIN
    IF p_tenant IS NULL THEN
      RAISE_APPLICATION_ERROR({_NO_TENANT}, 'a tenant is required');
    END IF;
    DBMS_SESSION.SET_CONTEXT('{name}', 'TENANT_ID', p_tenant);
  END set_tenant;
  PROCEDURE clear_tenant IS
  BEGIN
    DBMS_SESSION.CLEAR_CONTEXT('{name}', NULL, 'TENANT_ID');
  END clear_tenant;
END {SESSION_PACKAGE};"""
    return specification, body


def upkeep_package(text_index: str) -> tuple[str, str]:
    """Return specification and body of the package that looks after the text index."""
    name = text_index.upper()
    specification = f"""CREATE OR REPLACE PACKAGE {UPKEEP_PACKAGE} AS
  PROCEDURE compact_text;
  FUNCTION text_backlog RETURN NUMBER;
  FUNCTION text_errors RETURN NUMBER;
END {UPKEEP_PACKAGE};"""
    body = f"""CREATE OR REPLACE PACKAGE BODY {UPKEEP_PACKAGE} AS
  PROCEDURE compact_text IS
  BEGIN
    CTX_DDL.SYNC_INDEX(idx_name => '{name}');
    CTX_DDL.OPTIMIZE_INDEX(idx_name => '{name}', optlevel => 'FULL');
  END compact_text;
  FUNCTION text_backlog RETURN NUMBER IS
    l_count NUMBER;
  BEGIN
    EXECUTE IMMEDIATE 'SELECT COUNT(*) FROM DR${name}$C' INTO l_count;
    RETURN l_count;
  END text_backlog;
  FUNCTION text_errors RETURN NUMBER IS
    l_count NUMBER;
  BEGIN
    SELECT COUNT(*) INTO l_count FROM ctx_user_index_errors WHERE err_index_name = '{name}';
    RETURN l_count;
  END text_errors;
END {UPKEEP_PACKAGE};"""
    return specification, body


def text_preferences(lexer: str) -> str:
    """Return the block that makes the lexer preference."""
    basic = (
        "\n  CTX_DDL.SET_ATTRIBUTE('mem_lexer', 'BASE_LETTER', 'YES');"
        "\n  CTX_DDL.SET_ATTRIBUTE('mem_lexer', 'MIXED_CASE', 'NO');"
        if lexer == "BASIC_LEXER"
        else ""
    )
    return f"BEGIN\n  CTX_DDL.CREATE_PREFERENCE('mem_lexer', '{lexer}');{basic}\nEND;"


def policy_function(context: str) -> str:
    """Return the function that gives the policies their condition.

    The condition is a constant, so that all tenants share one cursor. Without a tenant it compares
    with NULL, and no row is seen.
    """
    condition = f"tenant_id = SYS_CONTEXT(''{context.upper()}'', ''TENANT_ID'')"
    return f"""CREATE OR REPLACE FUNCTION {POLICY_FUNCTION}
  (p_schema IN VARCHAR2, p_object IN VARCHAR2) RETURN VARCHAR2 IS
BEGIN
  RETURN '{condition}';
END {POLICY_FUNCTION};"""


def add_policy(owner: str, table: str) -> str:
    """Return the block that puts the policy on a table, for all four kinds of statements."""
    return f"""BEGIN
  DBMS_RLS.ADD_POLICY(
    object_schema => '{owner.upper()}', object_name => '{table.upper()}',
    policy_name => '{table.upper()}_TENANT',
    function_schema => '{owner.upper()}', policy_function => '{POLICY_FUNCTION.upper()}',
    statement_types => 'SELECT,INSERT,UPDATE,DELETE', update_check => TRUE, enable => TRUE,
    policy_type => DBMS_RLS.SHARED_STATIC);
END;"""


def drop_policy(owner: str, table: str) -> str:
    """Return the block that takes the policy away."""
    return (
        f"BEGIN DBMS_RLS.DROP_POLICY(object_schema => '{owner.upper()}', "
        f"object_name => '{table.upper()}', policy_name => '{table.upper()}_TENANT'); END;"
    )
