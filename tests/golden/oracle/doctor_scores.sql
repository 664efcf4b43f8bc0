SELECT PREDICTION(mem_reranker USING :q AS DATA1, :near AS DATA2) AS near,
       PREDICTION(mem_reranker USING :q AS DATA1, :far AS DATA2) AS far
FROM dual
