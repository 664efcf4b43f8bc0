SELECT r.chain_number, r.hash
FROM mem_receipts r
WHERE r.tenant_id = :tenant
ORDER BY r.chain_number DESC
FETCH FIRST 1 ROWS ONLY
