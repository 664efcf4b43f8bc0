SELECT 'mem_documents' AS place, COUNT(*) FROM mem_documents d
WHERE d.tenant_id = :tenant AND d.document_id IN (SELECT j.v FROM JSON_TABLE(:ids, '$[*]' COLUMNS (v VARCHAR2(4000) PATH '$')) j)
UNION ALL
SELECT 'mem_chunks' AS place, COUNT(*) FROM mem_chunks c
WHERE c.tenant_id = :tenant AND c.document_id IN (SELECT j.v FROM JSON_TABLE(:ids, '$[*]' COLUMNS (v VARCHAR2(4000) PATH '$')) j)
