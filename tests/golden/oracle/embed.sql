SELECT VECTOR_EMBEDDING(mem_embedder USING t.content AS DATA) AS embedding
FROM JSON_TABLE(:texts, '$[*]' COLUMNS
  (place FOR ORDINALITY, content VARCHAR2(4000) PATH '$')) t
ORDER BY t.place
