"""Which names and texts are a tenant's: decided by the words alone."""

import re
from typing import Any, Final

REDACTED: Final = "(deleted)"
"""What stands in a text in the place of a name of the tenant."""

_NAME: Final = r"[-=:.%\w]"
_BEFORE: Final = ("://", "tenants/", "namespaces/", "resource-quotas/", "persistent/")
"""What stands before a tenant in addresses of topics and of the admin API."""


class TenantNames:
    """The names of a tenant, its namespaces, bundles and topics."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self._prefix = f"{tenant}/"
        before = "|".join(f"(?<={re.escape(text)})" for text in _BEFORE)
        name, rest = re.escape(tenant), rf"(?:/{_NAME}*)"
        in_address = rf"(?:{before}){name}(?!{_NAME}){rest}*"
        alone = rf"(?<!{_NAME})(?<!/){name}{rest}+"
        self._mention = re.compile(f"{in_address}|{alone}")

    def owns(self, name: str) -> bool:
        """Return whether a bundle, namespace or topic without its scheme is the tenant's."""
        return name.startswith(self._prefix)

    def mentions(self, text: str) -> bool:
        """Return whether a text has a name of the tenant in it."""
        return self.tenant in text and self._mention.search(text) is not None

    def redacted(self, text: str) -> str:
        """Return a text with `REDACTED` in the place of each name; JSON stays JSON."""
        return self._mention.sub(REDACTED, text) if self.tenant in text else text

    def pruned(self, value: Any) -> Any:
        """Return a value of JSON without the tenant's entries: its keys, names in lists, and records of its bundles."""
        if isinstance(value, dict):
            return {key: self.pruned(item) for key, item in value.items() if not self.owns(str(key))}
        if isinstance(value, list | tuple):
            return [self.pruned(item) for item in value if not self._is_of_it(item)]
        return self.redacted(value) if isinstance(value, str) else value

    def _is_of_it(self, item: Any) -> bool:
        name = item.get("bundle") if isinstance(item, dict) else item
        return isinstance(name, str) and self.owns(name)
