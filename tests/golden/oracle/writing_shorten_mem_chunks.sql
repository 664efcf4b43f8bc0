UPDATE mem_chunks SET visible_until = :visible_until, as_of_until = :as_of_until
WHERE tenant_id = :tenant AND document_id = :document_id AND version = :version
