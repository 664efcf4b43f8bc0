SELECT r.chain_number, r.at_time, r.tenant_id, r.action, r.ids, r.details,
       r.previous_hash, r.hash
FROM mem_receipts r
WHERE r.tenant_id = :tenant
ORDER BY r.chain_number
