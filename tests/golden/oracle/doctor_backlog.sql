SELECT mem_upkeep.text_backlog AS backlog,
       mem_upkeep.text_errors AS errors
FROM dual
