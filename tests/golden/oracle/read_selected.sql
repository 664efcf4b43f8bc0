SELECT d.document_id, d.version, d.user_id, d.collection, d.doc_key, d.title,
       d.source_uri, d.metadata, d.first_created_at, d.created_at, d.valid_from,
       d.valid_until, d.expires_at, d.deleted_at, d.content
FROM mem_documents d
WHERE d.tenant_id = :tenant
  AND (d.user_id IS NULL OR d.user_id = :owner)
  AND d.collection IN (SELECT j.v FROM JSON_TABLE(:collections, '$[*]' COLUMNS (v VARCHAR2(4000) PATH '$')) j)
  AND d.as_of_from <= :as_of AND d.as_of_until > :as_of
  AND d.deleted_at IS NULL
  AND (d.expires_at IS NULL OR d.expires_at > :now)
  AND d.document_id IN (SELECT j.v FROM JSON_TABLE(:ids, '$[*]' COLUMNS (v VARCHAR2(4000) PATH '$')) j)
  AND d.doc_key = :doc_key
  AND (JSON_VALUE(d.metadata, '$."lang".type()' RETURNING VARCHAR2(20) NULL ON ERROR NULL ON EMPTY) = 'string' AND JSON_EXISTS(d.metadata, '$."lang"?(@ == $v)' PASSING :f0 AS "v"))
  AND (d.first_created_at > :after_at OR (d.first_created_at = :after_at AND d.document_id > :after_id))
ORDER BY d.first_created_at, d.document_id
FETCH FIRST 100 ROWS ONLY
