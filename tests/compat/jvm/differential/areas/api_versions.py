"""ApiVersions."""

from __future__ import annotations

from jvm.differential.case import Case, cases

from kavka.protocol.schemas.api_versions import ApiVersionsRequest

NAMED = ApiVersionsRequest(client_software_name="kavka-compat", client_software_version="1.0")

CASES = [
    *cases(0, 1, 2, name="api versions", request=ApiVersionsRequest()),
    *cases(3, 4, name="api versions", request=NAMED),
    *cases(3, 4, name="api versions without a software name", request=ApiVersionsRequest()),
    Case(
        "api versions with an odd software name",
        ApiVersionsRequest(client_software_name="a b", client_software_version="1"),
        3,
    ),
    Case(
        "api versions with an odd software version",
        ApiVersionsRequest(client_software_name="a", client_software_version="1/2"),
        3,
    ),
    Case("api versions without a client id", NAMED, 3, client_id=None),
    Case("api versions with an empty client id", NAMED, 3, client_id=""),
]
