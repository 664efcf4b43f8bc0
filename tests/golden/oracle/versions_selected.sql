SELECT v.document_id, v.version, v.user_id, v.collection, v.doc_key, v.title,
       v.source_uri, v.metadata, v.first_created_at, v.created_at, v.valid_from,
       v.valid_until, v.expires_at, v.deleted_at, v.content
FROM mem_documents v
WHERE v.tenant_id = :tenant AND v.document_id IN (
  SELECT d.document_id FROM mem_documents d WHERE d.tenant_id = :tenant
  AND (d.user_id IS NULL OR d.user_id = :owner)
  AND d.collection IN (SELECT j.v FROM JSON_TABLE(:collections, '$[*]' COLUMNS (v VARCHAR2(4000) PATH '$')) j)
  AND d.as_of_from <= :as_of AND d.as_of_until > :as_of
  AND d.deleted_at IS NULL
  AND (d.expires_at IS NULL OR d.expires_at > :now)
  AND d.document_id IN (SELECT j.v FROM JSON_TABLE(:ids, '$[*]' COLUMNS (v VARCHAR2(4000) PATH '$')) j)
  AND d.doc_key = :doc_key
  AND (JSON_VALUE(d.metadata, '$."lang".type()' RETURNING VARCHAR2(20) NULL ON ERROR NULL ON EMPTY) = 'string' AND JSON_EXISTS(d.metadata, '$."lang"?(@ == $v)' PASSING :f0 AS "v")))
ORDER BY v.first_created_at, v.document_id, v.version
