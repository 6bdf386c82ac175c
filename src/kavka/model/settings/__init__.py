"""Every configuration key of Kafka 4.3: brokers, topics, groups, client metrics subscriptions.

The tables are `broker`, `replication`, `coordinators`, `security`, `tiered`, `audit`, `otel`, `topic`, `group`
and `client_metrics`; a row is a constant named after its key (a topic's with TOPIC_ before it). `values` resolves them,
`rules` validates changes, `describe` answers DescribeConfigs.
"""

from kavka.model.settings.audit import *  # noqa: F403
from kavka.model.settings.broker import *  # noqa: F403
from kavka.model.settings.coordinators import *  # noqa: F403
from kavka.model.settings.otel import *  # noqa: F403
from kavka.model.settings.replication import *  # noqa: F403
from kavka.model.settings.security import *  # noqa: F403
from kavka.model.settings.tiered import *  # noqa: F403
from kavka.model.settings.topic import *  # noqa: F403
from kavka.model.settings.types import Kind as Kind
from kavka.model.settings.types import Password as Password
from kavka.model.settings.types import Setting as Setting
from kavka.model.settings.types import SettingError as SettingError
from kavka.model.settings.types import Source as Source
from kavka.model.settings.types import Update as Update
from kavka.model.settings.values import BROKER as BROKER
from kavka.model.settings.values import TOPIC as TOPIC
from kavka.model.settings.values import Values as Values
from kavka.model.settings.values import broker_values as broker_values
from kavka.model.settings.values import topic_values as topic_values
from kavka.model.settings.values import with_dynamic as with_dynamic
