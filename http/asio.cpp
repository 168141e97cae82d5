// SPDX-License-Identifier: Apache-2.0
// The one place where Asio and Beast are compiled.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
