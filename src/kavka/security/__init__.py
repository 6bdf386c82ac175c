"""Who may do what: principals, access rules and the decisions made of them. Pure."""
