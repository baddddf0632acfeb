"""The web server: listeners, access rules, pages, and limits that keep slow or hostile clients from delaying others."""
