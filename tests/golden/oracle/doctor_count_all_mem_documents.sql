SELECT COUNT(*) FROM mem_documents t
