# cmake -DOUTPUT=file -DTITLE=text -DPARTS=a;b -P JoinPages.cmake
# Writes the parts one after the other, under the title when there is one.

set(page "")
if(TITLE)
  string(APPEND page "# ${TITLE}\n\n")
endif()
foreach(part ${PARTS})
  file(READ ${part} text)
  string(APPEND page "${text}")
endforeach()
file(WRITE ${OUTPUT} "${page}")
