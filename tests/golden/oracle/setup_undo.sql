-- Set-up of agentmem. Run the steps marked 'admin' as an administrator of the pluggable
-- database and the others as mem_owner. &owner_password and &app_password are asked for.

-- undo policy on mem_receipts [owner]: row-level security: every statement sees and writes rows of the session's tenant only, and none without a tenant

BEGIN DBMS_RLS.DROP_POLICY(object_schema => 'MEM_OWNER', object_name => 'MEM_RECEIPTS', policy_name => 'MEM_RECEIPTS_TENANT'); END;
/

-- undo policy on mem_chunks [owner]: row-level security: every statement sees and writes rows of the session's tenant only, and none without a tenant

BEGIN DBMS_RLS.DROP_POLICY(object_schema => 'MEM_OWNER', object_name => 'MEM_CHUNKS', policy_name => 'MEM_CHUNKS_TENANT'); END;
/

-- undo policy on mem_documents [owner]: row-level security: every statement sees and writes rows of the session's tenant only, and none without a tenant

BEGIN DBMS_RLS.DROP_POLICY(object_schema => 'MEM_OWNER', object_name => 'MEM_DOCUMENTS', policy_name => 'MEM_DOCUMENTS_TENANT'); END;
/

-- undo upkeep package [owner]: optimises the text index, and reports its backlog and errors

DROP PACKAGE mem_upkeep;

-- undo session package [owner]: sets and clears the tenant of a session

DROP PACKAGE mem_session;

-- undo context [owner]: where a session keeps its tenant; only the package of the next step can set it

DROP CONTEXT mem_owner_ctx;

-- undo text index [owner]: the lexical pool; a row is found as soon as its transaction has committed

DROP INDEX mem_chunks_text_i FORCE;

-- undo text preferences [owner]: how Oracle Text cuts words: lexer BASIC_LEXER, no stop words

BEGIN CTX_DDL.DROP_PREFERENCE('mem_lexer'); END;
/

-- undo meta [owner]: which model and indexes the tables were made for; the same for all tenants

DROP TABLE mem_meta PURGE;

-- undo receipts [owner]: what was forgotten and when, as a chain for each tenant; holds no content

DROP TABLE mem_receipts PURGE;

-- undo chunks [owner]: what is searched; each chunk carries the scope and times of its document, so that one table answers a search

DROP TABLE mem_chunks PURGE;

-- undo documents [owner]: one row for each version of a document; times are UTC

DROP TABLE mem_documents PURGE;

-- undo application user [admin]: the user mem_app that applications log on as; it owns nothing

DROP USER mem_app CASCADE;

-- undo owner [admin]: the schema mem_owner for tables, indexes and packages; nobody needs to log on as it once the set-up is done

DROP USER mem_owner CASCADE;
