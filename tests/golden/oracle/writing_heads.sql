SELECT d.live_identity, d.document_id, d.version, d.fingerprint, d.chunks
FROM mem_documents d
WHERE d.tenant_id = :tenant AND d.live_identity IN (SELECT j.v FROM JSON_TABLE(:identities, '$[*]' COLUMNS (v VARCHAR2(4000) PATH '$')) j)
  AND (d.expires_at IS NULL OR d.expires_at > :now)
