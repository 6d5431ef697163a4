"""Authorization: the ACL operations that each API requires, checked before its handler runs.

`dispatch` calls an API's authorization instead of the handler when the broker has an authorizer. An
authorization passes the request, refuses it as a whole, or removes the items that the client may
not access and adds an error for each of them to the response.

- `api_authorizations.py`: one entry per API; without an entry an API is not served with an
  authorizer.
- `authorization_steps.py`: the classes that the entries are made of.
- `records.py`, `groups.py`, `topics.py`, `configs.py`: APIs with their own rules.

Nothing here decides whether a principal has a right (`ottla.auth.authorizer` does), and nothing
here reads or changes state: the handlers do.
"""
