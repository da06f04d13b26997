"""Decides which names and texts belong to a tenant, by the text alone."""

import re
from typing import Any, Final

REDACTED: Final = "(deleted)"
"""The text that replaces a name of the tenant."""

_NAME: Final = r"[-=:.%\w]"
_BEFORE: Final = ("://", "tenants/", "namespaces/", "resource-quotas/", "persistent/")
"""The text that precedes a tenant in addresses of topics and of the admin API."""


class TenantNames:
    """Recognizes the names of a tenant, and of its namespaces, bundles and topics, in texts and JSON."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self._prefix = f"{tenant}/"
        before = "|".join(f"(?<={re.escape(text)})" for text in _BEFORE)
        name, rest = re.escape(tenant), rf"(?:/{_NAME}*)"
        in_address = rf"(?:{before}){name}(?!{_NAME}){rest}*"
        alone = rf"(?<!{_NAME})(?<!/){name}{rest}+"
        self._mention = re.compile(f"{in_address}|{alone}")

    def owns(self, name: str) -> bool:
        """Return whether a bundle, a namespace or a topic belongs to the tenant. `name` is its full name; that of a
        topic without "persistent://".
        """
        return name.startswith(self._prefix)

    def mentions(self, text: str) -> bool:
        """Return whether a text contains the name of one of the tenant's namespaces, bundles or topics, or the tenant's
        name in an address (for example after "tenants/" or "://").
        """
        return self.tenant in text and self._mention.search(text) is not None

    def redacted(self, text: str) -> str:
        """Return `text` with each name for which `mentions` returns True replaced by `REDACTED`. JSON stays valid
        JSON.
        """
        return self._mention.sub(REDACTED, text) if self.tenant in text else text

    def pruned(self, value: Any) -> Any:
        """Return a copy of the JSON value `value` without the tenant's entries: keys of objects that are names of its
        namespaces, bundles or topics; and items of lists that are such a name, or a record whose field `bundle` is such
        a name. Inside all other texts, such names are replaced as by `redacted`.
        """
        if isinstance(value, dict):
            return {key: self.pruned(item) for key, item in value.items() if not self.owns(str(key))}
        if isinstance(value, list | tuple):
            return [self.pruned(item) for item in value if not self._is_of_it(item)]
        return self.redacted(value) if isinstance(value, str) else value

    def _is_of_it(self, item: Any) -> bool:
        name = item.get("bundle") if isinstance(item, dict) else item
        return isinstance(name, str) and self.owns(name)
