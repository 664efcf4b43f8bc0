SELECT d.document_id, d.version, d.live_identity, d.fingerprint, d.chunks,
       d.first_created_at, d.created_at,
       d.visible_from, d.visible_until, d.as_of_from, d.as_of_until
FROM mem_documents d
WHERE d.tenant_id = :tenant AND (
  d.document_id IN (SELECT j.v FROM JSON_TABLE(:new_ids, '$[*]' COLUMNS (v VARCHAR2(4000) PATH '$')) j)
  OR d.document_id IN (
    SELECT h.document_id FROM mem_documents h
    WHERE h.tenant_id = :tenant AND h.live_identity IN (SELECT j.v FROM JSON_TABLE(:identities, '$[*]' COLUMNS (v VARCHAR2(4000) PATH '$')) j)))
ORDER BY d.document_id, d.version
