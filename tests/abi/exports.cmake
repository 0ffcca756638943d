# SPDX-License-Identifier: BSD-3-Clause
# cmake -DNM=nm -DLIBRARY=libstep.so -DEXPECTED=exports.txt -P exports.cmake
# Compares what the library exports with the list that is kept by hand, so that additions and
# removals are deliberate.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY}
  OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^ \n]+\n" names "${listing}\n")
set(actual "")
foreach(name IN LISTS names)
  string(STRIP "${name}" name)
  if(NOT name STREQUAL "STEP_0.1")
    string(APPEND actual "${name}\n")
  endif()
endforeach()
file(READ ${EXPECTED} expected)
if(NOT actual STREQUAL expected)
  message(FATAL_ERROR "${LIBRARY} exports\n${actual}\nbut ${EXPECTED} has\n${expected}")
endif()
