INSERT INTO mem_receipts
  (tenant_id, chain_number, at_time, action, ids, details, previous_hash, hash)
VALUES (:tenant, :chain_number, :at_time, 'check', :ids, :details, '0', '0')
