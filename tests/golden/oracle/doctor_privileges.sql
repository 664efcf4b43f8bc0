SELECT privilege FROM session_privs
